//! Short connections have one profile where that is wanted, with what two have.

use std::net::SocketAddr;
use std::time::Duration;

use fathom_tests::{Fathom, Profile};

use crate::stage::{Family, NETWORKS, Pair, ROUND_TRIP, about, lab, whole_profiles};

const PORT: u16 = 5900;
const SHORT: Duration = Duration::from_millis(200);

/// Counters, whose sums are those of both profiles.
const SUMS: [&str; 12] = [
    "packets",
    "bytes",
    "reverse_packets",
    "reverse_bytes",
    "bytes_sent",
    "packets_sent",
    "bytes_received",
    "packets_received",
    "bytes_acknowledged",
    "packets_acknowledged",
    "packets_retransmitted",
    "rtt_samples",
];

#[fathom_lab::test]
fn a_short_connection_has_one_profile() {
    let lab = lab(Vec::new(), Vec::new());
    let apart = Fathom::profile(&lab.router, &NETWORKS).unwrap();
    let options = [&NETWORKS[..], &["--coalesce"]].concat();
    let together = Fathom::profile(&lab.router, &options).unwrap();
    for family in Family::BOTH {
        let port = family.port(PORT);
        let mut pair = Pair::open(&lab, SocketAddr::from((family.server(), port)));
        pair.upload(3);
        pair.close();
        for host in [&lab.client, &lab.server] {
            let [first, last] = &whole_profiles(&apart, host, port)[..] else {
                panic!("not two profiles");
            };
            let lasted = last.span("duration_ns").unwrap();
            assert!(lasted < SHORT, "{lasted:?}: the machine is too slow");
            let profiles = whole_profiles(&together, host, port);
            let [only] = &profiles[..] else {
                panic!("{profiles:#?}");
            };
            check(only, first, last);
        }
    }
    for fathom in [apart, together] {
        fathom.finish().unwrap();
    }
}

fn check(only: &Profile, first: &Profile, last: &Profile) {
    assert_eq!(only.text("start_state"), "NEW");
    for name in ["end_state", "reason", "flow_end_reason"] {
        assert_eq!(only.text(name), last.text(name), "{name}");
    }
    for name in SUMS {
        let of = |profile: &Profile| profile.number(name).unwrap_or_default();
        assert_eq!(of(only), of(first) + of(last), "{name}");
    }
    // Times lie apart by as long as both need to look at the clock.
    let is_time = |name: &str| name.ends_with("_ns");
    for (name, value) in last.fields().filter(|(name, _)| name.starts_with("total_")) {
        assert!(is_time(name) || only.get(name) == Some(value), "{name}");
    }
    for name in ["establishment_ns", "accept_queue_ns"] {
        assert_eq!(only.get(name).is_some(), first.get(name).is_some());
        assert_eq!(only.get(name), only.get(&format!("total_{name}")));
    }
    for name in ["role", "process", "pid", "connection"] {
        assert_eq!(only.get(name), first.get(name), "{name}");
    }
    if only.text("role") == "client" {
        let establishment = only.span("establishment_ns").unwrap();
        assert!(about(ROUND_TRIP).contains(&establishment), "{only:#?}");
    }
}
