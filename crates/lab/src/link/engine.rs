//! The decisions of one direction: a pure function of configuration, seed, packet and time.

use std::time::Duration;

use super::dice::{Dice, Purpose};
use super::direction::Direction;
use super::header::PacketHeader;
use super::rule::{Action, RuleState};

/// Why a packet does not reach the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DropCause {
    Rule,
    Loss,
    Queue,
    /// More packets in the emulation than it may hold; found outside the engine.
    Overflow,
}

/// What happens to one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Decision {
    /// Set when the packet is not delivered; the other fields then mean nothing.
    pub(crate) dropped: Option<DropCause>,
    /// When to release it, on the clock of `now_ns`.
    pub(crate) due_ns: u64,
    /// Holding back beyond the direction's delay, by a rule or by reordering.
    pub(crate) extra_delay_ns: u64,
    pub(crate) is_duplicated: bool,
    /// A random number that selects the bit to flip.
    pub(crate) corruption: Option<u64>,
    pub(crate) is_reordered: bool,
}

/// One direction at work.
#[derive(Debug)]
pub(crate) struct Engine {
    direction: Direction,
    rules: Vec<RuleState>,
    dice: Dice,
    /// When `direction` was put in force.
    start_ns: u64,
    /// Index of the next packet.
    index: u64,
    /// When the bottleneck will have sent everything before it.
    busy_until_ns: u64,
    /// Release of the latest packet that keeps the order.
    last_due_ns: u64,
}

impl Engine {
    pub(crate) fn new(direction: Direction, dice: Dice, now_ns: u64) -> Self {
        let mut engine = Self {
            direction: Direction::default(),
            rules: Vec::new(),
            dice,
            start_ns: now_ns,
            index: 0,
            busy_until_ns: 0,
            last_due_ns: 0,
        };
        engine.reconfigure(direction, now_ns);
        engine
    }

    /// Puts another configuration in force: its schedule and rules start over, packet indexes and
    /// queue go on.
    pub(crate) fn reconfigure(&mut self, direction: Direction, now_ns: u64) {
        self.rules = direction
            .rules
            .iter()
            .cloned()
            .map(RuleState::new)
            .collect();
        self.direction = direction;
        self.start_ns = now_ns;
    }

    /// Decides about the next packet.
    pub(crate) fn decide(
        &mut self,
        header: Option<&PacketHeader>,
        length_bytes: usize,
        now_ns: u64,
    ) -> Decision {
        let index = self.index;
        self.index += 1;
        let mut decision = Decision::default();
        for rule in &mut self.rules {
            match rule.on_packet(header) {
                Some(Action::Drop) => decision.dropped = Some(DropCause::Rule),
                Some(Action::Delay(delay)) => decision.extra_delay_ns += nanoseconds(delay),
                Some(Action::Duplicate) => decision.is_duplicated = true,
                Some(Action::Corrupt) => {
                    decision.corruption = Some(self.dice.roll(index, Purpose::CorruptedByte));
                }
                None => {}
            }
        }
        if decision.dropped.is_some() {
            return decision;
        }
        let Some(departure_ns) = self.pass_bottleneck(length_bytes, now_ns) else {
            decision.dropped = Some(DropCause::Queue);
            return decision;
        };
        self.roll(index, &mut decision);
        decision.due_ns = self.due(index, now_ns, departure_ns, decision.extra_delay_ns);
        decision
    }

    fn roll(&self, index: u64, decision: &mut Decision) {
        let happens = |purpose, probability: f64| self.dice.happens(index, purpose, probability);
        if happens(Purpose::Loss, self.direction.loss) {
            decision.dropped = Some(DropCause::Loss);
        }
        decision.is_duplicated |= happens(Purpose::Duplication, self.direction.duplication);
        if happens(Purpose::Corruption, self.direction.corruption) {
            decision.corruption = Some(self.dice.roll(index, Purpose::CorruptedByte));
        }
        if happens(Purpose::Reordering, self.direction.reordering) {
            decision.is_reordered = true;
            decision.extra_delay_ns += nanoseconds(self.direction.reordering_delay);
        }
    }

    /// When the packet has left the bottleneck, or `None` when the queue before it is full.
    fn pass_bottleneck(&mut self, length_bytes: usize, now_ns: u64) -> Option<u64> {
        let Some(rate) = self.direction.rate_bits_per_second else {
            return Some(now_ns);
        };
        let waiting_ns = self.busy_until_ns.saturating_sub(now_ns);
        let waiting_bytes = u128::from(waiting_ns) * u128::from(rate) / 8_000_000_000;
        // A packet in transmission has left the queue, so an idle bottleneck takes any packet.
        if waiting_ns > 0
            && waiting_bytes + length_bytes as u128 > u128::from(self.direction.queue_bytes)
        {
            return None;
        }
        let transmission_ns = length_bytes as u128 * 8_000_000_000 / u128::from(rate);
        self.busy_until_ns = self.busy_until_ns.max(now_ns) + transmission_ns as u64;
        Some(self.busy_until_ns)
    }

    fn due(&mut self, index: u64, now_ns: u64, departure_ns: u64, extra_delay_ns: u64) -> u64 {
        let elapsed = Duration::from_nanos(now_ns.saturating_sub(self.start_ns));
        let delay_ns = nanoseconds(self.direction.delay.delay_at(elapsed));
        let jitter_ns = self
            .dice
            .below(index, Purpose::Jitter, nanoseconds(self.direction.jitter));
        let due_ns = departure_ns + delay_ns + jitter_ns;
        if extra_delay_ns > 0 {
            // Held back on purpose: those behind pass it and must not wait for it.
            return due_ns + extra_delay_ns;
        }
        self.last_due_ns = self.last_due_ns.max(due_ns);
        self.last_due_ns
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::header::{TcpFlags, Transport};
    use crate::link::rule::{PacketKind, Rule};
    use proptest::prelude::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    fn engine(direction: Direction) -> Engine {
        Engine::new(direction, Dice::new(1, 0), 0)
    }

    fn segment(port: u16, payload_length: u32, flags: TcpFlags) -> PacketHeader {
        PacketHeader {
            protocol: 6,
            source_port: port,
            payload_length,
            transport: Transport::Tcp {
                sequence: 0,
                acknowledgement: 0,
                flags,
                timestamps: None,
            },
            ..PacketHeader::default()
        }
    }

    #[test]
    fn delay_is_exact() {
        let mut engine = engine(Direction::delayed(20 * MILLISECOND));
        assert_eq!(engine.decide(None, 100, 5).due_ns, 20_000_005);
    }

    #[test]
    fn full_queue_drops_at_the_tail() {
        // 1000 bytes take 1 ms; two more fit in the queue behind the one in transmission.
        let mut engine = engine(Direction::default().rate(8_000_000, 3_000));
        let decisions: Vec<_> = (0..5).map(|_| engine.decide(None, 1_000, 0)).collect();
        assert_eq!(
            decisions
                .iter()
                .map(|decision| decision.due_ns)
                .collect::<Vec<_>>(),
            [1_000_000, 2_000_000, 3_000_000, 0, 0]
        );
        assert_eq!(decisions[4].dropped, Some(DropCause::Queue));
        assert_eq!(engine.decide(None, 1_000, 1_000_000).dropped, None);
    }

    #[test]
    fn nth_data_packet_of_each_flow() {
        let rule = Rule::nth(2, PacketKind::Data).in_each_flow().drop();
        let mut engine = engine(Direction::default().rule(rule));
        let mut is_dropped = |port, payload| {
            let header = segment(port, payload, TcpFlags::ACK);
            engine.decide(Some(&header), 60, 0).dropped.is_some()
        };
        assert!(!is_dropped(1, 10));
        assert!(!is_dropped(2, 10));
        assert!(!is_dropped(1, 0));
        assert!(is_dropped(1, 10));
        assert!(is_dropped(2, 10));
        assert!(!is_dropped(1, 10));
    }

    #[test]
    fn kinds_of_tcp_packets() {
        let rule = |kind| {
            Rule::nth(1, kind)
                .times(u64::MAX)
                .on_port(7)
                .delay(MILLISECOND)
        };
        let hits = |kind, payload, flags| {
            let mut engine = engine(Direction::default().rule(rule(kind)));
            let header = segment(7, payload, flags);
            engine.decide(Some(&header), 60, 0).extra_delay_ns == 1_000_000
        };
        assert!(hits(PacketKind::Syn, 0, TcpFlags::SYN));
        assert!(!hits(PacketKind::Syn, 0, TcpFlags::SYN | TcpFlags::ACK));
        assert!(hits(PacketKind::SynAck, 0, TcpFlags::SYN | TcpFlags::ACK));
        assert!(hits(PacketKind::Ack, 0, TcpFlags::ACK));
        assert!(!hits(PacketKind::Ack, 0, TcpFlags::ACK | TcpFlags::FIN));
        assert!(hits(PacketKind::Fin, 0, TcpFlags::ACK | TcpFlags::FIN));
        assert!(!hits(PacketKind::Udp, 0, TcpFlags::ACK));
    }

    #[test]
    fn schedule_restarts_on_reconfiguration() {
        let ramp = crate::Schedule::ramp(Duration::ZERO, 10 * MILLISECOND, 10 * MILLISECOND);
        let mut engine = engine(Direction::default());
        engine.reconfigure(Direction::scheduled(ramp), 1_000_000_000);
        assert_eq!(engine.decide(None, 1, 1_005_000_000).due_ns, 1_010_000_000);
    }

    proptest! {
        #[test]
        fn jitter_keeps_order_and_bounds(gaps in prop::collection::vec(0_u64..3_000_000, 1..200), seed: u64) {
            let direction = Direction::delayed(MILLISECOND).jitter(5 * MILLISECOND);
            let mut engine = Engine::new(direction, Dice::new(seed, 0), 0);
            let (mut now_ns, mut last_ns) = (0, 0);
            for gap_ns in gaps {
                now_ns += gap_ns;
                let due_ns = engine.decide(None, 100, now_ns).due_ns;
                prop_assert!(due_ns >= last_ns);
                prop_assert!((1_000_000..=6_000_000).contains(&(due_ns - now_ns)));
                last_ns = due_ns;
            }
        }

        #[test]
        fn decisions_repeat_for_a_seed(seed: u64) {
            let direction = Direction::default()
                .loss(0.2)
                .duplication(0.2)
                .corruption(0.2)
                .reordering(0.2, MILLISECOND)
                .jitter(MILLISECOND);
            let mut first = Engine::new(direction.clone(), Dice::new(seed, 1), 0);
            let mut second = Engine::new(direction, Dice::new(seed, 1), 0);
            for _ in 0..200 {
                prop_assert_eq!(first.decide(None, 9, 0), second.decide(None, 9, 0));
            }
        }
    }
}
