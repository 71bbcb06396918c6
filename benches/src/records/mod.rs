//! Records as an agent has them of flows that go on for ten minutes each.

mod others;

use std::fs::File;
use std::net::IpAddr;

use fathom_measure::response::ResponseAggregate;
use fathom_measure::rtt::RttAggregate;
use fathom_measure::traffic::TrafficRecord;
use fathom_record::{FlowKey, Histogram, Nanoseconds, Port, Protocol, Record, Time};
use fathom_store::Kind;
use parquet::file::reader::{FileReader, SerializedFileReader};

/// In nanoseconds.
pub const SECOND: u64 = 1_000_000_000;
/// How long an interval is, in nanoseconds.
pub const INTERVAL_NS: u64 = 10 * SECOND;
/// 2025-11-25T00:00:00Z, as questions say.
const BEGIN_NS: u64 = 1_764_028_800 * SECOND;
/// Round trips of a direction in an interval: a sample each 500 ms.
const SAMPLES: u64 = 20;
/// In networks of 64.
const SERVERS: u64 = 256;
/// So many intervals has a flow, then another takes its place.
const LIFE: u64 = 60;

/// Of each flow and interval there are `traffic`, `response_aggregate`, and `rtt_aggregate` of two
/// directions. Of so many flows one is followed hop by hop, and two end or ask for a name.
pub const GROUP: u64 = 8;
/// Of such a group.
pub const GROUP_ROWS: u64 = 4 * GROUP + others::ROWS;

/// The end of an interval, by its number.
pub fn end_of(interval: u64) -> Time {
    Time(BEGIN_NS + (interval + 1) * INTERVAL_NS)
}

/// Hands on the records of all flows of an interval.
pub fn make(interval: u64, flows: u64, take: &mut dyn FnMut(&dyn Record)) {
    let time = end_of(interval);
    for place in 0..flows {
        // They do not all end at once.
        let number = place + (interval + place) / LIFE * flows;
        let flow = flow(number);
        let mut random = Random(number << 32 | interval);
        // From 1 to 100 ms, by flow.
        let base_ns = 1_000_000 + mixed(number) % 99_000_000;
        take(&traffic(time, flow, &mut random));
        take(&round_trips(time, flow, base_ns, &mut random));
        let back = round_trips(time, flow.reversed(), base_ns / 10, &mut random);
        take(&back);
        take(&responses(time, flow, base_ns, &mut random));
        if place % GROUP == 0 {
            others::make(take, time, flow, base_ns, &mut random);
        }
    }
}

fn flow(number: u64) -> FlowKey {
    // Clients are in 16 networks, in all of them at any time.
    let (b, c) = ((number % 16) as u8, (number / 16) as u8);
    let [high, low] = ((mixed(number) % SERVERS) as u16).to_be_bytes();
    FlowKey {
        protocol: Protocol::TCP,
        source: IpAddr::from([10, 0, b, c]),
        source_port: 1_024 + (mixed(number + 1) % 60_000) as u16,
        destination: IpAddr::from([192, high, low >> 6, low]),
        destination_port: 443,
    }
}

fn histogram(base_ns: u64, random: &mut Random) -> Histogram {
    let mut histogram = Histogram::new();
    for _ in 0..SAMPLES {
        // Most are near the least, and some are far, up to twice as long.
        let thousandths = random.below(32) * random.below(32);
        histogram.record(base_ns + base_ns / 1_000 * thousandths);
    }
    histogram
}

fn round_trips(time: Time, flow: FlowKey, base_ns: u64, random: &mut Random) -> RttAggregate {
    let rtt_histogram = histogram(base_ns, random);
    let quantile = |part| rtt_histogram.quantile(part).map(Nanoseconds);
    let packets = 50 + random.below(100) as u32;
    RttAggregate {
        time,
        duration_ns: Nanoseconds(INTERVAL_NS),
        flow: Some(flow),
        network: None,
        vlan: None,
        inner_vlan: None,
        rtt_samples: rtt_histogram.count(),
        rtt_min_ns: rtt_histogram.min().map(Nanoseconds),
        rtt_mean_ns: rtt_histogram.mean().map(Nanoseconds),
        rtt_p50_ns: quantile(0.5),
        rtt_p90_ns: quantile(0.9),
        rtt_p95_ns: quantile(0.95),
        rtt_p99_ns: quantile(0.99),
        rtt_max_ns: rtt_histogram.max().map(Nanoseconds),
        packets,
        bytes: u64::from(packets) * 700 + random.below(1_000),
        packets_retransmitted: u32::from(random.below(50) == 0),
        packets_out_of_order: 0,
        packets_congestion_experienced: 0,
        interface: "eth0",
        rtt_histogram,
    }
}

fn traffic(time: Time, flow: FlowKey, random: &mut Random) -> TrafficRecord {
    let (packets, reverse_packets) = (50 + random.below(100), 50 + random.below(100));
    let lost = u64::from(random.below(50) == 0);
    TrafficRecord {
        time,
        duration_ns: Nanoseconds(INTERVAL_NS),
        flow,
        packets,
        bytes: packets * 700 + random.below(1_000),
        packets_retransmitted: Some(lost),
        bytes_retransmitted: Some(lost * 1_448),
        packets_out_of_order: Some(0),
        packets_lost_before: Some(0),
        packets_lost_after: Some(lost),
        loss_ratio: Some(lost as f64 / packets as f64),
        reverse_packets,
        reverse_bytes: reverse_packets * 900 + random.below(1_000),
        reverse_packets_retransmitted: Some(0),
        reverse_bytes_retransmitted: Some(0),
        reverse_packets_out_of_order: Some(0),
        reverse_packets_lost_before: Some(0),
        reverse_packets_lost_after: Some(0),
        reverse_loss_ratio: Some(0.0),
        vlan: None,
        inner_vlan: None,
        tunnel: None,
        interface: "eth0",
    }
}

fn responses(time: Time, flow: FlowKey, base_ns: u64, random: &mut Random) -> ResponseAggregate {
    let latency_histogram = histogram(base_ns * 2, random);
    let quantile = |part| latency_histogram.quantile(part).map(Nanoseconds);
    ResponseAggregate {
        time,
        protocol: Some(flow.protocol),
        source: Some(flow.source),
        source_port: Some(Port(flow.source_port)),
        destination: Some(flow.destination),
        destination_port: Some(Port(flow.destination_port)),
        community_id: Some(flow.community_id()),
        network: None,
        duration_ns: Nanoseconds(INTERVAL_NS),
        flows: 1,
        responses_per_second: SAMPLES as f64 * 1e9 / INTERVAL_NS as f64,
        latency_min_ns: latency_histogram.min().map(Nanoseconds),
        latency_mean_ns: latency_histogram.mean().map(Nanoseconds),
        latency_p50_ns: quantile(0.5),
        latency_p90_ns: quantile(0.9),
        latency_p95_ns: quantile(0.95),
        latency_p99_ns: quantile(0.99),
        latency_max_ns: latency_histogram.max().map(Nanoseconds),
        think_ns: None,
        sure: 1.0,
        epochs_without: 0,
        timeout_gaps: 0,
        waiting_ns: None,
        interface: "eth0",
        latency_histogram,
    }
}

/// How many rows the segments of a kind have.
pub fn rows_of(kind: &Kind) -> anyhow::Result<u64> {
    let rows = kind.segments.iter().map(|path| {
        let reader = SerializedFileReader::new(File::open(path)?)?;
        Ok(reader.metadata().file_metadata().num_rows().cast_unsigned())
    });
    rows.sum()
}

/// Numbers that are the same in each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mixed(self.0)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// As the finalizer of `SplitMix64`.
fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}
