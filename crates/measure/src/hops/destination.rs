//! The destination of a flow, which answers no probe, but the flow's own packets: `destination.h`
//! says which.

use super::event::Followed;
use super::path::Interval;

/// Round trips to it.
#[derive(Debug, Default)]
pub(super) struct DestinationTrips {
    pub(super) last_ns: Option<u64>,
    pub(super) minimum_ns: Option<u64>,
    /// Since the last summary.
    pub(super) interval: Interval,
}

impl DestinationTrips {
    /// Takes what became of a packet.
    pub(super) fn take(&mut self, followed: &Followed) {
        self.interval.known += 1;
        let Some(answered) = followed.answered else {
            self.interval.lost += 1;
            return;
        };
        let rtt_ns = answered.saturating_sub(followed.sent);
        self.last_ns = Some(rtt_ns);
        self.minimum_ns = Some(self.minimum_ns.map_or(rtt_ns, |least| least.min(rtt_ns)));
        self.interval.answer(rtt_ns);
    }

    /// Packets take another way from now on.
    pub(super) fn forget(&mut self) {
        (self.last_ns, self.minimum_ns) = (None, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hops::native::{
        fathom_hops_is_reply, fathom_hops_on_packet, fathom_hops_watch, hops_flow, hops_header,
    };

    const MS: u64 = 1_000_000;
    const TIMEOUT: u64 = 2000 * MS;
    const ACK: u8 = 0x10;

    /// A segment, or one that arrives; a keep-alive has the number before the next one.
    fn segment(seq: u32, payload: u32, ack: u32) -> hops_header {
        hops_header {
            seq,
            payload,
            ack,
            protocol: 6,
            tcp_flags: ACK,
            ..hops_header::default()
        }
    }

    /// A flow whose next packets leave at these times; it has sent up to number 1000.
    struct Leaving(hops_flow);

    impl Leaving {
        fn new() -> Self {
            let mut leaving = Self(hops_flow::default());
            leaving.leave(10 * MS, &segment(1000, 0, 1));
            leaving
        }

        /// Returns whether the packet tells that the one that is followed was lost.
        fn leave(&mut self, now: u64, header: &hops_header) -> bool {
            // SAFETY: both are whole, and the flow is nobody else's.
            #[expect(unsafe_code, reason = "calls the shared C")]
            unsafe {
                let is_lost = fathom_hops_watch(&raw mut self.0, header, now, TIMEOUT) != 0;
                fathom_hops_on_packet(&raw mut self.0, header);
                is_lost
            }
        }

        fn is_reply(&self, header: &hops_header) -> bool {
            // SAFETY: both are whole.
            #[expect(unsafe_code, reason = "calls the shared C")]
            unsafe {
                fathom_hops_is_reply(&raw const self.0, header) != 0
            }
        }

        fn followed_since(&self) -> u64 {
            self.0.followed_since
        }
    }

    #[test]
    fn data_is_followed_until_its_first_byte_is_acknowledged() {
        let mut flow = Leaving::new();
        assert_eq!(flow.followed_since(), 0, "there is no data in it");
        flow.leave(20 * MS, &segment(1000, 3000, 1));
        assert_eq!(flow.followed_since(), 20 * MS);
        assert!(!flow.leave(21 * MS, &segment(4000, 100, 1)));
        assert_eq!(flow.followed_since(), 20 * MS, "one at a time");
        assert!(!flow.is_reply(&segment(1, 0, 1000)));
        assert!(flow.is_reply(&segment(1, 0, 2448)));
        flow.0.followed_since = 0;
        flow.leave(100 * MS, &segment(4100, 100, 1));
        assert_eq!(flow.followed_since(), 0, "too soon");
        flow.leave(120 * MS, &segment(4200, 100, 1));
        assert_eq!(flow.followed_since(), 120 * MS);
    }

    #[test]
    fn data_that_is_sent_again_was_lost() {
        let mut flow = Leaving::new();
        flow.leave(20 * MS, &segment(1000, 1000, 1));
        flow.leave(21 * MS, &segment(2000, 1000, 1));
        assert!(!flow.leave(30 * MS, &segment(2000, 1000, 1)), "another one");
        assert!(flow.leave(40 * MS, &segment(1000, 2000, 1)));
        assert_eq!(flow.followed_since(), 0, "its answer would be ambiguous");
        flow.leave(130 * MS, &segment(1000, 2000, 1));
        assert_eq!(flow.followed_since(), 0);
        flow.leave(140 * MS, &segment(3000, 10, 1));
        assert_eq!(flow.followed_since(), 140 * MS);
    }

    #[test]
    fn what_was_not_answered_in_time_was_lost() {
        let mut flow = Leaving::new();
        flow.leave(20 * MS, &segment(1000, 1000, 1));
        assert!(!flow.leave(20 * MS + TIMEOUT, &segment(2000, 1000, 1)));
        assert!(flow.leave(21 * MS + TIMEOUT, &segment(3000, 1000, 1)));
    }

    #[test]
    fn keep_alives_are_followed() {
        let mut flow = Leaving::new();
        flow.leave(20 * MS, &segment(999, 0, 1));
        assert_eq!(flow.followed_since(), 20 * MS);
        assert!(!flow.is_reply(&segment(1, 500, 1000)), "data of its own");
        assert!(flow.is_reply(&segment(501, 0, 1000)));
        assert!(flow.leave(1020 * MS, &segment(999, 0, 1)), "again");
        assert_eq!(flow.followed_since(), 1020 * MS);
    }

    #[test]
    fn echo_requests_are_followed_until_their_reply() {
        let echo = |seq, is_reply| hops_header {
            protocol: 1,
            tcp_flags: u8::from(is_reply),
            ..segment(seq, 56, 0)
        };
        let mut flow = Leaving(hops_flow::default());
        flow.leave(200 * MS, &echo(0x77_0001, false));
        assert_eq!(flow.followed_since(), 200 * MS);
        assert!(!flow.leave(1200 * MS, &echo(0x77_0002, false)));
        assert!(!flow.is_reply(&echo(0x77_0002, true)));
        assert!(flow.is_reply(&echo(0x77_0001, true)));
        assert!(flow.leave(2201 * MS, &echo(0x77_0003, false)));
    }

    #[test]
    fn round_trips_and_losses_are_told() {
        let mut trips = DestinationTrips::default();
        for (sent, answered) in [(1, Some(31)), (2, None), (3, Some(53))] {
            trips.take(&Followed {
                flow: 1,
                sent: sent * MS,
                answered: answered.map(|time| time * MS),
            });
        }
        let interval = &trips.interval;
        assert_eq!((interval.known, interval.lost), (3, 1));
        let known = (trips.minimum_ns, trips.last_ns);
        assert_eq!(known, (Some(30 * MS), Some(50 * MS)));
        let deviation = interval.squares.deviation(&interval.rtts);
        assert_eq!(deviation, Some(10 * MS));
    }
}
