//! Records of what happens beside flows: hops on their paths, connections that end, names.

use std::net::IpAddr;

use fathom_measure::hops::HopSummary;
use fathom_measure::profile::{DnsProfile, InGroup, State};
use fathom_record::{FlowKey, Nanoseconds, Protocol, Record, Time, Unit, record};

use super::{INTERVAL_NS, Random, SECOND, histogram};

const HOPS: u64 = 8;
const ENDS: u64 = 2;
const QUESTIONS: u64 = 2;
/// How many records [`make`] makes.
pub(super) const ROWS: u64 = HOPS + ENDS + QUESTIONS;

const PROCESSES: [&str; 4] = ["nginx", "curl", "postgres", "envoy"];

record! {
    /// The last profile of a connection: what the view has of it.
    #[record = "profile"]
    struct Ended {
        /// When the profile ends.
        pub time: Time,
        /// The connection.
        pub flow: FlowKey,
        /// What ended the profile.
        pub reason: &'static str,
        /// When the profile starts.
        pub start_time: Time,
        /// Who opened it.
        pub role: &'static str,
        /// How long the connection was.
        pub total_duration_ns: Nanoseconds,
        /// From the SYN to the established state.
        pub total_establishment_ns: Option<Nanoseconds>,
        /// Until the application took it.
        pub total_accept_queue_ns: Option<Nanoseconds>,
        /// Payload sent.
        #[field(unit = Unit::Bytes)]
        pub total_bytes_sent: u64,
        /// Payload received.
        #[field(unit = Unit::Bytes)]
        pub total_bytes_received: u64,
        /// Packets marked as lost.
        #[field(unit = Unit::Packets)]
        pub total_packets_lost: u64,
        /// Packets sent again.
        #[field(unit = Unit::Packets)]
        pub total_packets_retransmitted: u64,
        /// The mean of all round trips.
        pub total_rtt_mean_ns: Nanoseconds,
        /// Retransmission timeouts.
        pub total_stalls: u64,
        /// Time until the recoveries from them.
        pub total_stalled_ns: Nanoseconds,
        /// Whose: its number,
        pub pid: u32,
        /// and its name.
        pub process: &'static str,
        /// Its control group.
        pub cgroup: &'static str,
        /// It is in none.
        pub container: Option<&'static str>,
        /// So nothing runs it.
        pub container_runtime: Option<&'static str>,
        /// It is in no pod, either.
        pub pod: Option<&'static str>,
        /// Of systemd.
        pub systemd_unit: Option<&'static str>,
        /// Its network namespace.
        pub network_namespace: u32,
        /// Where its packets leave.
        pub interface: &'static str,
    }
}

/// Hands on what there is of a flow, and of others at that time.
pub(super) fn make(
    take: &mut dyn FnMut(&dyn Record),
    time: Time,
    flow: FlowKey,
    base_ns: u64,
    random: &mut Random,
) {
    for ttl in 1..=HOPS {
        take(&hop(time, flow, ttl, base_ns, random));
    }
    for _ in 0..ENDS {
        let source_port = 1_024 + random.below(60_000) as u16;
        let flow = FlowKey {
            source_port,
            ..flow
        };
        take(&ended(moment(time, random), flow, base_ns, random));
    }
    for _ in 0..QUESTIONS {
        take(&question(moment(time, random), flow, random));
    }
}

/// Within the interval.
fn moment(time: Time, random: &mut Random) -> Time {
    Time(time.0 - random.below(INTERVAL_NS))
}

fn hop(time: Time, flow: FlowKey, ttl: u64, base_ns: u64, random: &mut Random) -> HopSummary {
    let histogram = histogram(base_ns * ttl / HOPS, random);
    let quantile = |part| histogram.quantile(part).map(Nanoseconds);
    let [.., network, router] = (base_ns % 1_024).to_be_bytes();
    HopSummary {
        time,
        duration_ns: Nanoseconds(INTERVAL_NS),
        flow,
        ttl: ttl as u8,
        responder: Some(IpAddr::from([172, 16 + network, ttl as u8, router])),
        is_destination: false,
        responder_name: None,
        as_number: None,
        probes_sent: histogram.count(),
        probes_lost: u64::from(random.below(20) == 0),
        silence: None,
        rtt_last_ns: histogram.max().map(Nanoseconds),
        rtt_min_ns: histogram.min().map(Nanoseconds),
        rtt_mean_ns: histogram.mean().map(Nanoseconds),
        rtt_stdev_ns: quantile(0.1),
        rtt_p50_ns: quantile(0.5),
        rtt_p90_ns: quantile(0.9),
        rtt_p95_ns: quantile(0.95),
        rtt_p99_ns: quantile(0.99),
        rtt_max_ns: histogram.max().map(Nanoseconds),
        queue_ns: quantile(0.9),
        routers_back: None,
        marks: None,
        interface: "eth0",
        rtt_histogram: histogram,
    }
}

fn ended(time: Time, flow: FlowKey, base_ns: u64, random: &mut Random) -> Ended {
    let duration_ns = base_ns * (2 + random.below(1_000));
    let lost = u64::from(random.below(30) == 0);
    Ended {
        time,
        flow,
        reason: "FIN",
        start_time: Time(time.0 - duration_ns),
        role: "client",
        total_duration_ns: Nanoseconds(duration_ns),
        total_establishment_ns: Some(Nanoseconds(base_ns + random.below(100_000))),
        total_accept_queue_ns: None,
        total_bytes_sent: random.below(100_000),
        total_bytes_received: random.below(1_000_000),
        total_packets_lost: lost,
        total_packets_retransmitted: lost,
        total_rtt_mean_ns: Nanoseconds(base_ns + random.below(1_000_000)),
        total_stalls: lost,
        total_stalled_ns: Nanoseconds(lost * SECOND / 5),
        pid: 1_000 + random.below(50) as u32,
        process: PROCESSES[random.below(4) as usize],
        cgroup: "/system.slice/web.service",
        container: None,
        container_runtime: None,
        pod: None,
        systemd_unit: Some("web.service"),
        network_namespace: 4_026_531_840,
        interface: "eth0",
    }
}

fn question(time: Time, flow: FlowKey, random: &mut Random) -> DnsProfile {
    let latency_ns = 500_000 + random.below(5_000) * random.below(5_000);
    let resolver = 1 + random.below(2) as u8;
    DnsProfile {
        time,
        flow: FlowKey {
            protocol: Protocol::UDP,
            source_port: 1_024 + random.below(60_000) as u16,
            destination: IpAddr::from([10, 255, random.below(4) as u8, resolver]),
            destination_port: 53,
            ..flow
        },
        start_state: State::New,
        end_state: State::Finished,
        reason: "answer",
        flow_end_reason: "end of flow",
        start_time: Time(time.0 - latency_ns),
        query_name: Some(format!("host-{}.example.net", random.below(500)).into()),
        query_type: if random.below(2) == 0 { "A" } else { "AAAA" }.into(),
        response_code: Some("NOERROR"),
        latency_ns: Some(Nanoseconds(latency_ns)),
        retries: u32::from(random.below(100) == 0),
        transaction_id: random.below(65_536) as u16,
        pid: Some(1_000 + random.below(50) as u32),
        process: Some(PROCESSES[random.below(4) as usize].into()),
        group: InGroup::default(),
    }
}
