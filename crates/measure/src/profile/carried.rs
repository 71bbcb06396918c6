//! What connections are on the wire, as far as the stack tells: packets of all kinds, with their
//! headers.

use super::increase::received;
use crate::profile::native::profile_snapshot;

/// Header of IPv4 without options, of IPv6 without extensions.
const IP_HEADER_BYTES: [u64; 2] = [20, 40];
/// Header of TCP without options.
const TCP_HEADER_BYTES: u8 = 20;

/// Packets of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Carried {
    pub(super) packets: u64,
    /// With IP headers.
    pub(super) bytes: u64,
}

/// The packets among those of a profile that have SYN set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct SynPackets {
    pub(super) sent: u32,
    pub(super) received: u32,
    /// Does the stack count those sent? Not those of a server, which had no socket then; the one
    /// that it received it does.
    pub(super) is_counted: bool,
}

/// What a profile sent and received: `found` are its increases, `before` and `now` how the
/// connection stood at its ends.
pub(super) fn carried(
    found: &profile_snapshot,
    before: Option<&profile_snapshot>,
    now: &profile_snapshot,
    syn_packets: SynPackets,
) -> [Carried; 2] {
    let in_order = received(now).saturating_sub(before.map_or(0, received));
    let again = found.disorder.duplicate_bytes + found.disorder.partial_duplicate_bytes;
    let of = |payload_bytes, segments, syn_packets: u32, is_counted: bool| {
        let uncounted = if is_counted { 0 } else { syn_packets };
        let packets = u64::from(segments) + u64::from(uncounted);
        Carried {
            packets,
            bytes: payload_bytes
                + packets * header_bytes(now)
                + u64::from(syn_packets) * more_bytes(now),
        }
    };
    let SynPackets {
        sent,
        received,
        is_counted,
    } = syn_packets;
    [
        of(found.bytes_sent, found.segments_out, sent, is_counted),
        of(in_order + again, found.segments_in, received, true),
    ]
}

/// Bytes of headers of a packet with payload.
fn header_bytes(snapshot: &profile_snapshot) -> u64 {
    let is_ipv6 = snapshot.of.flow().source.is_ipv6();
    IP_HEADER_BYTES[usize::from(is_ipv6)] + u64::from(snapshot.header_bytes)
}

/// Options that only packets with SYN have: MSS, window scale, and that SACK is permitted, which
/// stands where others have padding before their timestamps.
fn more_bytes(snapshot: &profile_snapshot) -> u64 {
    if snapshot.header_bytes > TCP_HEADER_BYTES {
        8
    } else {
        12
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::flow_address_of;

    /// The two ends of an upload of 2,000 bytes, as `tcpdump` has it: SYN 60, SYN-ACK 60, ACK 52,
    /// data 1,500 and 604, ACK 52.
    #[test]
    fn a_handshake_and_data() {
        let mut over_ipv4 = profile_snapshot {
            header_bytes: 32,
            ..profile_snapshot::default()
        };
        over_ipv4.of.local = flow_address_of([10, 0, 0, 1].into());
        let handshake = |segments_in, segments_out| profile_snapshot {
            segments_in,
            segments_out,
            ..over_ipv4
        };
        let of_client = SynPackets {
            sent: 1,
            received: 1,
            is_counted: true,
        };
        let of_server = SynPackets {
            is_counted: false,
            ..of_client
        };
        let wire = |packets, bytes| Carried { packets, bytes };
        let now = handshake(1, 1);
        assert_eq!(
            carried(&now, None, &now, of_client),
            [wire(1, 60), wire(1, 60)]
        );
        let now = handshake(2, 0);
        assert_eq!(
            carried(&now, None, &now, of_server),
            [wire(1, 60), wire(2, 112)]
        );
        let data = profile_snapshot {
            bytes_sent: 2_000,
            segments_out: 3,
            segments_in: 1,
            ..over_ipv4
        };
        assert_eq!(
            carried(&data, Some(&now), &data, SynPackets::default()),
            [wire(3, 52 + 1_500 + 604), wire(1, 52)]
        );
    }
}
