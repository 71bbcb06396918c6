//! Records of an hour, as an agent has them, and names that would do harm if anybody let them.

use std::net::IpAddr;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use fathom_record::{FlowKey, Histogram, Nanoseconds, Protocol, Record, Time, record};
use fathom_store::{Batches, Settings, Writer};

/// 2025-11-24T16:00:00Z.
pub(crate) const BEGIN_S: u64 = 1_764_000_000;
pub(crate) const HOUR: &str = "from=2025-11-24T16:00:00Z&to=2025-11-24T17:00:00Z";
pub(crate) const SCRIPT: &str =
    "<img src=x onerror=window.harmed=1>\"'><script>window.harmed=1</script>";
const FORMULA: &str = "=HYPERLINK(\"http://evil.example\")";
const INTERVAL: Nanoseconds = Nanoseconds(10_000_000_000);

record! {
    /// As far as the page needs it.
    #[record = "traffic"]
    struct Traffic {
        /// When.
        pub time: Time,
        /// How long.
        pub duration_ns: Nanoseconds,
        /// Whose.
        pub flow: FlowKey,
        /// How many.
        pub packets: u64,
        /// How much.
        pub bytes: u64,
        /// How many back.
        pub reverse_packets: u64,
        /// How much back.
        pub reverse_bytes: u64,
        /// What was lost.
        pub loss_ratio: Option<f64>,
        /// Where.
        pub interface: &'static str,
    }
}

record! {
    /// As far as the page needs it.
    #[record = "rtt_aggregate"]
    struct RoundTrips {
        /// When.
        pub time: Time,
        /// Whose.
        pub flow: FlowKey,
        /// The least.
        pub rtt_min_ns: Option<Nanoseconds>,
        /// How many.
        pub rtt_samples: u64,
        /// Where.
        pub interface: &'static str,
        /// All.
        pub rtt_histogram: Histogram,
    }
}

record! {
    /// As far as the page needs it.
    #[record = "response_aggregate"]
    struct Waits {
        /// When.
        pub time: Time,
        /// How long.
        pub duration_ns: Nanoseconds,
        /// Whose.
        pub flow: FlowKey,
        /// How many.
        pub responses_per_second: f64,
        /// How sure.
        pub sure: f64,
        /// Where.
        pub interface: &'static str,
        /// All.
        pub latency_histogram: Histogram,
    }
}

record! {
    /// As far as the page needs it.
    #[record = "hop"]
    struct Hop {
        /// When.
        pub time: Time,
        /// Whose.
        pub flow: FlowKey,
        /// Where on the path.
        pub ttl: u64,
        /// Who.
        pub responder: Option<IpAddr>,
        /// Its name.
        pub responder_name: &'static str,
        /// Sent.
        pub probes_sent: u64,
        /// Lost.
        pub probes_lost: u64,
        /// Added by waiting.
        pub queue_ns: Option<Nanoseconds>,
        /// Where.
        pub interface: &'static str,
        /// All.
        pub rtt_histogram: Histogram,
    }
}

record! {
    /// As far as the page needs it.
    #[record = "profile"]
    struct Profile {
        /// When.
        pub time: Time,
        /// Whose.
        pub flow: FlowKey,
        /// What ended it.
        pub reason: &'static str,
        /// How long it was.
        pub total_duration_ns: Nanoseconds,
        /// All stalls.
        pub total_stalls: u64,
        /// All time in them.
        pub total_stalled_ns: Nanoseconds,
        /// Stalls.
        pub stalls: u64,
        /// Whose it is.
        pub process: &'static str,
    }
}

record! {
    /// As far as the page needs it.
    #[record = "profile_dns"]
    struct Lookup {
        /// When.
        pub time: Time,
        /// The resolver.
        pub destination: IpAddr,
        /// What was asked for.
        pub query_name: &'static str,
        /// What was answered.
        pub response_code: &'static str,
        /// How long it took.
        pub latency_ns: Nanoseconds,
    }
}

record! {
    /// As the agent tells it.
    #[record = "agent"]
    struct Agent {
        /// When.
        pub time: Time,
        /// The version.
        pub version: &'static str,
        /// How long its intervals are.
        pub interval_ns: Nanoseconds,
        /// What else its host is called.
        pub labels: &'static str,
    }
}

pub(crate) fn flow(client: u8) -> FlowKey {
    FlowKey {
        protocol: Protocol::TCP,
        source: IpAddr::from([10, 0, client, 1]),
        source_port: 40_000 + u16::from(client),
        destination: IpAddr::from([192, 0, 2, 1]),
        destination_port: 443,
    }
}

fn histogram(base_us: u64) -> Histogram {
    let mut histogram = Histogram::new();
    (0..20).for_each(|part| histogram.record((base_us + base_us * part / 20) * 1_000));
    histogram
}

/// The records of an interval that ends at this second.
fn interval(second: u64) -> Vec<Box<dyn Record>> {
    let time = Time(second * 1_000_000_000);
    let mut records: Vec<Box<dyn Record>> = Vec::new();
    for client in 1..=5 {
        let flow = flow(client);
        let base_us = 4_000 * u64::from(client);
        records.push(Box::new(Traffic {
            time,
            duration_ns: INTERVAL,
            flow,
            packets: 100,
            bytes: 100_000 * u64::from(client),
            reverse_packets: 200,
            reverse_bytes: 300_000,
            loss_ratio: Some(f64::from(client) / 1_000.0),
            interface: "eth0",
        }));
        for (flow, base_us) in [(flow, base_us), (flow.reversed(), base_us / 8)] {
            records.push(Box::new(RoundTrips {
                time,
                flow,
                rtt_min_ns: Some(Nanoseconds(base_us * 1_000)),
                rtt_samples: 20,
                interface: "eth0",
                rtt_histogram: histogram(base_us),
            }));
        }
        records.push(Box::new(Waits {
            time,
            duration_ns: INTERVAL,
            flow,
            responses_per_second: 2.0,
            sure: 1.0,
            interface: "eth0",
            latency_histogram: histogram(base_us * 3),
        }));
    }
    for ttl in 1..=4 {
        records.push(Box::new(Hop {
            time,
            flow: flow(1),
            ttl,
            responder: (ttl != 3).then(|| IpAddr::from([172, 16, 0, ttl as u8])),
            responder_name: SCRIPT,
            probes_sent: 10,
            probes_lost: u64::from(ttl == 4),
            queue_ns: Some(Nanoseconds(ttl * 100_000)),
            interface: "eth0",
            rtt_histogram: histogram(1_000 * ttl),
        }));
    }
    records
}

/// What is told now and then.
fn now_and_then(second: u64) -> Vec<Box<dyn Record>> {
    let time = Time(second * 1_000_000_000);
    let profile = |client, process| Profile {
        time,
        flow: flow(client),
        reason: "end of flow",
        total_duration_ns: Nanoseconds(90_000_000_000),
        total_stalls: u64::from(client),
        total_stalled_ns: Nanoseconds(u64::from(client) * 200_000_000),
        stalls: u64::from(client),
        process,
    };
    vec![
        Box::new(profile(1, SCRIPT)),
        Box::new(profile(2, FORMULA)),
        Box::new(Lookup {
            time,
            destination: IpAddr::from([10, 0, 0, 53]),
            query_name: SCRIPT,
            response_code: "SERVFAIL",
            latency_ns: Nanoseconds(30_000_000),
        }),
        Box::new(Agent {
            time,
            version: "0.1.0",
            interval_ns: INTERVAL,
            labels: SCRIPT,
        }),
    ]
}

pub(crate) fn append(writer: &mut Writer, host: &str, records: &[Box<dyn Record>]) {
    let mut batches = Batches::new(host);
    for record in records {
        batches.put(&**record);
    }
    for batch in batches.take() {
        writer.append(batch).unwrap();
    }
    writer.sync().unwrap();
}

/// An hour of a host whose agent is silent since.
pub(crate) fn hour(directory: &Path) {
    let (mut writer, _) = Writer::open(directory, Settings::default()).unwrap();
    for step in 1..=360 {
        append(&mut writer, "gateway", &interval(BEGIN_S + step * 10));
    }
    append(&mut writer, "gateway", &now_and_then(BEGIN_S + 1_800));
    writer.finish().unwrap();
}

/// Records of the last minute, of a host with a hostile name.
pub(crate) fn minute(writer: &mut Writer) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    for step in (0..6).rev() {
        let second = now.as_secs() - step * 10;
        append(writer, "<b>host</b>", &interval(second));
    }
}

/// A store without records.
pub(crate) fn empty(directory: &Path) {
    let (writer, _) = Writer::open(directory, Settings::default()).unwrap();
    writer.finish().unwrap();
}
