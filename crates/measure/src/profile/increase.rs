//! What happened between two looks at a connection.

use crate::profile::native::profile_snapshot;

/// Payload received so far: the stack counts a FIN as a byte.
pub(super) fn received(snapshot: &profile_snapshot) -> u64 {
    snapshot
        .bytes_received
        .saturating_sub(u64::from(snapshot.has_fin))
}

/// Payload acknowledged so far: the stack counts a FIN as a byte, and the SYN of the end that
/// opened the connection.
pub(super) fn acknowledged(snapshot: &profile_snapshot, is_client: bool) -> u64 {
    let sent_once = snapshot
        .bytes_sent
        .saturating_sub(snapshot.bytes_retransmitted);
    snapshot
        .bytes_acknowledged
        .saturating_sub(u64::from(is_client))
        .min(sent_once)
}

/// How much of the time since `start_ns` lies in a stall that was not recovered from before.
pub(super) fn stalled_ns(start_ns: u64, now: &profile_snapshot) -> u64 {
    match now.disorder.stalled_since {
        0 => 0,
        since_ns => now.of.time.saturating_sub(since_ns.max(start_ns)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::native::increase;

    #[test]
    fn counters_wrap_around() {
        let mut before = profile_snapshot {
            packets_sent: u32::MAX,
            limited: [1, 2, 3],
            segment_size: 1000,
            ..profile_snapshot::default()
        };
        before.disorder.stalls = 2;
        let mut now = profile_snapshot {
            packets_sent: 4,
            limited: [11, 2, 4],
            segment_size: 1448,
            ..before
        };
        now.disorder.stalls = 3;
        let found = increase(&before, &now);
        assert_eq!(found.packets_sent, 5);
        assert_eq!(found.limited, [10, 0, 1]);
        assert_eq!(found.disorder.stalls, 1);
        assert_eq!(found.segment_size, 1448);
        assert_eq!(increase(&profile_snapshot::default(), &now), now);
    }

    #[test]
    fn sequence_numbers_of_syn_and_fin_are_no_payload() {
        let snapshot = profile_snapshot {
            bytes_sent: 120,
            bytes_retransmitted: 20,
            bytes_acknowledged: 102,
            bytes_received: 51,
            has_fin: 1,
            ..profile_snapshot::default()
        };
        assert_eq!(acknowledged(&snapshot, true), 100);
        assert_eq!(received(&snapshot), 50);
        let unacknowledged = profile_snapshot {
            bytes_acknowledged: 41,
            ..snapshot
        };
        assert_eq!(acknowledged(&unacknowledged, true), 40);
        assert_eq!(acknowledged(&unacknowledged, false), 41);
    }

    #[test]
    fn a_stall_counts_from_its_timeout() {
        let mut now = profile_snapshot::default();
        now.of.time = 100;
        assert_eq!(stalled_ns(50, &now), 0);
        now.disorder.stalled_since = 30;
        assert_eq!(stalled_ns(50, &now), 50);
        now.disorder.stalled_since = 90;
        assert_eq!(stalled_ns(50, &now), 10);
    }
}
