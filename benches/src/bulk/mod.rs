//! Few long connections through one bottleneck, with the queue, the losses and the recoveries that
//! real bulk transfers have.

mod endpoint;
mod simulation;
mod sink;
mod source;
mod window;

use std::io::Write;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use fathom_lab::Sequence;

use crate::Error;
use crate::recorder::Recorder;
use crate::wire::segment_payload_bytes;
use endpoint::Endpoint;
use simulation::{Path, Simulation};
use sink::Sink;
use source::Source;

/// Connections in a bulk capture.
pub const FLOWS: u64 = 18;

const SHORTEST_BASE_RTT_NS: u64 = 5_000_000;
const LONGEST_BASE_RTT_NS: u64 = 40_000_000;
const START_GAP_NS: u64 = 100_000_000;

/// What [`write_bulk`] makes.
#[derive(Debug, Clone)]
pub struct BulkOptions {
    /// About how many packets all the connections have together, acknowledgements included; they
    /// share the data equally.
    pub packets: u64,
    /// Decides every number and gap.
    pub seed: u64,
    /// Whether the hosts use TCP timestamps (1 ms ticks).
    pub has_timestamps: bool,
}

/// What the bottleneck did, which no capture tells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BulkTotals {
    /// Packets that found the queue full.
    pub dropped_packets: u64,
    /// Simulated time from the first packet to the last, in nanoseconds.
    pub duration_ns: u64,
}

/// Makes 18 bulk transfers, all from left to right through one queue, and records what passes in
/// front of that queue.
///
/// ```text
/// sending host --- near half --- capture point --- 300 Mbit/s, 2 MB drop-tail --- far half --- receiving host
/// ```
///
/// Nine transfers are uploads (the left host connects) and nine downloads (the right one does);
/// eight uploads and one download are over IPv4, the others over IPv6. The round trip without a
/// queue goes from 5 ms for the first flow to 40 ms for the last, a fifth of it on the near side; a
/// full queue adds 53 ms on the far side. Senders are `NewReno` with SACK, receivers acknowledge
/// every second segment or after 40 ms. In the first flow the sequence numbers and the timestamps
/// wrap around.
///
/// # Errors
/// When the recorder cannot write.
pub fn write_bulk<C: Write, T: Write>(
    options: &BulkOptions,
    recorder: &mut Recorder<C, T>,
) -> Result<BulkTotals, Error> {
    let mut random = Sequence::new(options.seed);
    // Two segments and one acknowledgement are three packets.
    let segments = (options.packets * 2 / 3 / FLOWS).max(1) as u32;
    let mut simulation = Simulation::new(recorder, random.clone());
    for index in 0..FLOWS {
        let is_upload = index < 8 || index == 17;
        let is_ipv4 = index < 8 || index == 16;
        let (left, right) = addresses(index, is_ipv4, is_upload);
        let mss = segment_payload_bytes(left.ip(), options.has_timestamps);
        let (mut initial_sequence, mut clock_offset) =
            (random.below(1 << 32) as u32, random.below(1 << 32) as u32);
        if index == 0 {
            initial_sequence = 0_u32.wrapping_sub(segments.saturating_mul(u32::from(mss)) / 2);
            clock_offset = u32::MAX - 50;
        }
        let source = Source::new(
            Endpoint::new(
                is_upload,
                options.has_timestamps,
                initial_sequence,
                clock_offset,
            ),
            segments,
            mss,
        );
        let sink = Sink::new(Endpoint::new(
            !is_upload,
            options.has_timestamps,
            random.below(1 << 32) as u32,
            random.below(1 << 32) as u32,
        ));
        let base_rtt_ns = SHORTEST_BASE_RTT_NS
            + (LONGEST_BASE_RTT_NS - SHORTEST_BASE_RTT_NS) * index / (FLOWS - 1);
        let path = Path {
            near_ns: base_rtt_ns / 5 / 2,
            far_ns: base_rtt_ns * 4 / 5 / 2,
        };
        simulation.add_transfer(left, right, source, sink, path, index * START_GAP_NS);
    }
    simulation.run()
}

/// The sending host's address and the receiving one's; the server is at iperf3's port.
fn addresses(index: u64, is_ipv4: bool, is_upload: bool) -> (SocketAddr, SocketAddr) {
    const SERVER_PORT: u16 = 5_201;
    let client_port = 40_000 + index as u16;
    let (left_port, right_port) = if is_upload {
        (client_port, SERVER_PORT)
    } else {
        (SERVER_PORT, client_port)
    };
    if is_ipv4 {
        let address = |network| Ipv4Addr::new(198, 18, network, 1);
        (
            (address(0), left_port).into(),
            (address(1), right_port).into(),
        )
    } else {
        let address = |network| Ipv6Addr::new(0x2001, 0xdb8, 0, network, 0, 0, 0, 1);
        (
            (address(0), left_port).into(),
            (address(1), right_port).into(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::Totals;

    fn bulk(packets: u64, has_timestamps: bool) -> (String, Totals, BulkTotals) {
        let mut truth = Vec::new();
        let mut recorder = Recorder::new(std::io::sink(), &mut truth).unwrap();
        let bulk_totals = write_bulk(
            &BulkOptions {
                packets,
                seed: 5,
                has_timestamps,
            },
            &mut recorder,
        )
        .unwrap();
        let totals = recorder.finish().unwrap();
        (String::from_utf8(truth).unwrap(), totals, bulk_totals)
    }

    #[test]
    fn all_transfers_end_and_their_times_are_within_the_path() {
        let (truth, totals, bulk_totals) = bulk(100_000, true);
        assert!(bulk_totals.dropped_packets > 0);
        assert!(totals.retransmissions >= bulk_totals.dropped_packets / 2);
        assert!((90_000..120_000).contains(&totals.packets), "{totals:?}");
        // Every connection closes: the last acknowledgement of the FIN in either direction is a
        // sample, if none of it was lost.
        assert_eq!(totals.handshake_samples, 2 * FLOWS);
        for row in truth.lines().skip(1) {
            let columns: Vec<&str> = row.split(',').collect();
            let rtt_ns: u64 = columns[7].parse().unwrap();
            let Ok(path_ns) = columns[8].parse::<u64>() else {
                assert_eq!(columns[5], "timestamp", "{row}");
                continue;
            };
            assert!(path_ns < 32_000_000 + 54_000_000, "{row}");
            assert!(rtt_ns + 1_000 >= path_ns, "{row}");
            if columns[5] != "timestamp" {
                assert!(
                    rtt_ns <= path_ns + 40_001_000,
                    "held longer than the delayed acknowledgement allows: {row}"
                );
            }
        }
    }

    #[test]
    fn works_without_timestamps() {
        let (_, totals, _) = bulk(20_000, false);
        assert_eq!(totals.timestamp_samples, 0);
        assert!(totals.sequence_samples > 5_000, "{totals:?}");
    }
}
