//! What agents say of themselves.

use fathom_record::{Time, record};

use super::{answer, flow, histogram, keep, rtt, time};

record! {
    /// As the agent tells it.
    #[record = "agent"]
    struct Agent {
        /// When.
        pub time: Time,
        /// What.
        pub interfaces: &'static str,
        /// What else its host is called.
        pub labels: &'static str,
    }
}

#[test]
fn the_newest_record_of_an_agent_holds() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let agent = |second, labels| Agent {
        time: time(second),
        interfaces: "eth0",
        labels,
    };
    keep(
        path,
        &[&agent(20, "owner=a=b,rack=7"), &agent(10, "site=ber1")],
    );
    keep(path, &[&agent(0, ""), &rtt(30, flow(1, 1), histogram([5]))]);
    let agents = "SELECT host, time, interfaces, labels FROM agents";
    let expected = "gateway,2025-11-24T16:00:20Z,eth0,\"owner=a=b,rack=7\"\n";
    assert_eq!(answer(path, agents), expected);
    let labels = "SELECT * FROM labels ORDER BY name";
    assert_eq!(answer(path, labels), "gateway,owner,a=b\ngateway,rack,7\n");
    let by_rack = "SELECT l.value, count(*) FROM rtt_aggregate r JOIN labels l ON l.host = r.host AND l.name = 'rack' GROUP BY 1";
    assert_eq!(answer(path, by_rack), "7,1\n");
    keep(path, &[&agent(40, "")]);
    assert_eq!(answer(path, labels), "");
}
