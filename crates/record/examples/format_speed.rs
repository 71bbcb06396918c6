//! How long writing a record takes in each format, as a multiple of copying the finished line.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

use fathom_record::format::Format;
use fathom_record::{FlowKey, Nanoseconds, Protocol, Time, record};

/// Enough for processors not to learn the digits, few enough for a run to go undisturbed.
const RECORDS: u32 = 2_000;
const RUNS: u32 = 1_000;

record! {
    /// A round trip as dense as they come: 15 fields.
    #[record = "rtt"]
    pub struct RoundTrip {
        /// When the answer passed.
        pub time: Time,
        /// The flow.
        pub flow: FlowKey,
        /// How packets were matched.
        #[field(bare)]
        pub method: &'static str,
        /// The round trip.
        pub rtt_ns: Nanoseconds,
        /// The shortest so far.
        #[field(label = "min")]
        pub rtt_min_ns: Nanoseconds,
        /// The smoothed one.
        #[field(label = "smoothed")]
        pub smoothed_rtt_ns: Nanoseconds,
        /// Bytes so far.
        pub sent_bytes: u64,
        /// Packets so far.
        pub packets: u64,
        /// The tag.
        pub vlan: Option<u16>,
        /// The interface.
        #[field(bare)]
        pub interface: &'static str,
        /// Into or out of it.
        #[field(bare)]
        pub direction: &'static str,
    }
}

fn round_trip(number: u32) -> RoundTrip {
    let spread = u64::from(number.wrapping_mul(2_654_435_761));
    RoundTrip {
        time: Time(1_795_178_096_000_000_000 + u64::from(number) * 10_000),
        flow: FlowKey {
            protocol: Protocol::TCP,
            source: IpAddr::V4(Ipv4Addr::from(0x0a00_0000 | spread as u32 & 0xff_ffff)),
            source_port: spread as u16,
            destination: IpAddr::V4(Ipv4Addr::from(0x0a01_0101)),
            destination_port: 443,
        },
        method: "timestamp",
        rtt_ns: Nanoseconds(20_000_000 + spread % 10_000_000),
        rtt_min_ns: Nanoseconds(20_000_000),
        smoothed_rtt_ns: Nanoseconds(25_000_000 + spread % 100_000),
        sent_bytes: spread % 100_000_000,
        packets: spread % 100_000,
        vlan: None,
        interface: "eth0",
        direction: "ingress",
    }
}

/// The shortest of many runs of `write`, in nanoseconds a record: what the machine does besides
/// disturbs most of them.
fn shortest_ns(
    mut write: impl FnMut(&RoundTrip, &mut Vec<u8>),
    records: &[RoundTrip],
) -> (f64, usize) {
    let mut out = Vec::new();
    let mut shortest_ns = u128::MAX;
    for _ in 0..RUNS {
        out.clear();
        let begin = Instant::now();
        for record in records {
            write(record, &mut out);
        }
        shortest_ns = shortest_ns.min(begin.elapsed().as_nanos());
        black_box(&out);
    }
    (
        shortest_ns as f64 / records.len() as f64,
        out.len() / records.len(),
    )
}

fn main() {
    let records: Vec<RoundTrip> = (0..RECORDS).map(round_trip).collect();
    for format in Format::ALL {
        let mut sink = format.sink();
        let (written_ns, line_bytes) = shortest_ns(|record, out| sink.write(record, out), &records);
        let line = vec![b'x'; line_bytes];
        let (copied_ns, _) =
            shortest_ns(|_, out| out.extend_from_slice(black_box(&line)), &records);
        let (name, ratio) = (format.name(), written_ns / copied_ns);
        println!(
            "{name:4} {written_ns:6.1} ns a record of {line_bytes} bytes, {ratio:.0} times copying it"
        );
    }
}
