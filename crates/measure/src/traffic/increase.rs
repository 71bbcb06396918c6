//! What a flow has carried since it was looked at last, and the record that comes of it.

use fathom_record::{Nanoseconds, Time};

use super::TrafficRecord;
use crate::flow::{flow_of, tags};
use crate::native::flow_key;
use crate::replay::Interfaces;
use crate::traffic::native::{traffic_counts, traffic_flow};

/// Of TCP alone is known what was lost.
const TCP: u32 = 6;

/// What a flow carried in an interval.
#[derive(Debug, Clone, Copy)]
pub(super) struct Increase {
    pub(super) key: flow_key,
    /// By the direction of the packets.
    pub(super) counts: [traffic_counts; 2],
    /// Direction of who began.
    pub(super) opener: u8,
}

/// What both ends have sent by now.
pub(super) fn counts_of(flow: &traffic_flow) -> [traffic_counts; 2] {
    [flow.half[0].counts, flow.half[1].counts]
}

/// From `before` to `now`. Less of anything than before: the flow was forgotten and began anew in
/// between.
pub(super) fn since(
    now: &[traffic_counts; 2],
    before: &[traffic_counts; 2],
) -> [traffic_counts; 2] {
    let of_half = |half: usize| {
        let (now, before): (&traffic_counts, &traffic_counts) = (&now[half], &before[half]);
        Some(traffic_counts {
            packets: now.packets.checked_sub(before.packets)?,
            bytes: now.bytes.checked_sub(before.bytes)?,
            segments: now.segments.checked_sub(before.segments)?,
            repeated_bytes: now.repeated_bytes.checked_sub(before.repeated_bytes)?,
            lost_bytes: now.lost_bytes.checked_sub(before.lost_bytes)?,
            repeated: now.repeated.checked_sub(before.repeated)?,
            needless: now.needless.checked_sub(before.needless)?,
            lost: now.lost.checked_sub(before.lost)?,
            overtaken: now.overtaken.checked_sub(before.overtaken)?,
        })
    };
    match (of_half(0), of_half(1)) {
        (Some(low), Some(high)) => [low, high],
        _ => *now,
    }
}

/// Counts of a flow that are kept while others come. Of most flows nothing is lost or repeated:
/// they take a third of the memory.
#[cfg(feature = "live")]
#[derive(Default)]
pub(super) struct Kept {
    sent: [Sent; 2],
    /// Instead of `sent`, where that has no room for all.
    all: Option<Box<[traffic_counts; 2]>>,
}

#[cfg(feature = "live")]
#[derive(Clone, Copy, Default)]
struct Sent {
    bytes: u64,
    packets: u32,
    segments: u32,
}

#[cfg(feature = "live")]
impl Kept {
    /// What was kept.
    pub(super) fn counts(&self) -> [traffic_counts; 2] {
        let of_sent = |sent: &Sent| traffic_counts {
            packets: sent.packets.into(),
            bytes: sent.bytes,
            segments: sent.segments.into(),
            ..traffic_counts::default()
        };
        let all = self.all.as_deref().copied();
        all.unwrap_or_else(|| self.sent.each_ref().map(of_sent))
    }

    /// Keeps these.
    pub(super) fn set(&mut self, counts: [traffic_counts; 2]) {
        self.sent = counts.each_ref().map(|counts| Sent {
            bytes: counts.bytes,
            packets: counts.packets as u32,
            segments: counts.segments as u32,
        });
        self.all = None;
        if self.counts() != counts {
            self.all = Some(Box::new(counts));
        }
    }

    /// Keeps the sum of what was kept and of these.
    pub(super) fn add(&mut self, more: &[traffic_counts; 2]) {
        let mut sum = self.counts();
        for (sum, more) in sum.iter_mut().zip(more) {
            sum.packets += more.packets;
            sum.bytes += more.bytes;
            sum.segments += more.segments;
            sum.repeated_bytes += more.repeated_bytes;
            sum.lost_bytes += more.lost_bytes;
            sum.repeated += more.repeated;
            sum.needless += more.needless;
            sum.lost += more.lost;
            sum.overtaken += more.overtaken;
        }
        self.set(sum);
    }
}

/// What can be told of one direction.
#[derive(Default)]
struct Told {
    packets_retransmitted: Option<u64>,
    bytes_retransmitted: Option<u64>,
    packets_out_of_order: Option<u64>,
    packets_lost_before: Option<u64>,
    packets_lost_after: Option<u64>,
    loss_ratio: Option<f64>,
}

fn told_of(counts: &traffic_counts, is_tcp: bool) -> Told {
    if !is_tcp {
        return Told::default();
    }
    let before = u64::from(counts.lost);
    let repeated = u64::from(counts.repeated);
    let after = repeated.saturating_sub(counts.needless.into());
    // Of what was lost before it came here, only the second copy has passed.
    let sent = counts.segments + before;
    Told {
        packets_retransmitted: Some(before + repeated),
        bytes_retransmitted: Some(counts.lost_bytes + counts.repeated_bytes),
        packets_out_of_order: Some(counts.overtaken.into()),
        packets_lost_before: Some(before),
        packets_lost_after: Some(after),
        loss_ratio: (sent > 0).then(|| (before + after) as f64 / sent as f64),
    }
}

impl Increase {
    /// Did anything pass?
    pub(super) fn is_something(&self) -> bool {
        self.bytes() > 0
    }

    /// Of both directions.
    pub(super) fn bytes(&self) -> u64 {
        self.counts[0].bytes + self.counts[1].bytes
    }

    /// For an interval of this `length` that ended at `time`.
    fn record(
        &self,
        time: Time,
        length: Nanoseconds,
        interfaces: &impl Interfaces,
    ) -> TrafficRecord {
        let opener = usize::from(self.opener & 1);
        let (own, reverse) = (&self.counts[opener], &self.counts[1 - opener]);
        let is_tcp = self.key.protocol() == TCP;
        let (forth, back) = (told_of(own, is_tcp), told_of(reverse, is_tcp));
        let (vlan, inner_vlan) = tags(self.key.vlan());
        TrafficRecord {
            time,
            duration_ns: length,
            flow: flow_of(&self.key, self.opener & 1),
            packets: own.packets,
            bytes: own.bytes,
            packets_retransmitted: forth.packets_retransmitted,
            bytes_retransmitted: forth.bytes_retransmitted,
            packets_out_of_order: forth.packets_out_of_order,
            packets_lost_before: forth.packets_lost_before,
            packets_lost_after: forth.packets_lost_after,
            loss_ratio: forth.loss_ratio,
            reverse_packets: reverse.packets,
            reverse_bytes: reverse.bytes,
            reverse_packets_retransmitted: back.packets_retransmitted,
            reverse_bytes_retransmitted: back.bytes_retransmitted,
            reverse_packets_out_of_order: back.packets_out_of_order,
            reverse_packets_lost_before: back.packets_lost_before,
            reverse_packets_lost_after: back.packets_lost_after,
            reverse_loss_ratio: back.loss_ratio,
            vlan,
            inner_vlan,
            tunnel: (self.key.tunnel != 0).then_some(self.key.tunnel),
            interface: interfaces.name(self.key.interface),
        }
    }
}

/// The records of an interval that is over, busiest flow first. There may be very many: each is
/// made when it is asked for.
pub(super) struct TrafficInterval<I> {
    increases: std::vec::IntoIter<Increase>,
    time: Time,
    length: Nanoseconds,
    interfaces: I,
}

impl<I> TrafficInterval<I> {
    /// Of this `length`, that ended at `time`.
    pub(super) fn new(
        mut increases: Vec<Increase>,
        time: Time,
        length: Nanoseconds,
        interfaces: I,
    ) -> Self {
        increases.sort_unstable_by_key(|increase| std::cmp::Reverse(increase.bytes()));
        Self {
            increases: increases.into_iter(),
            time,
            length,
            interfaces,
        }
    }
}

impl<I: Interfaces> Iterator for TrafficInterval<I> {
    type Item = TrafficRecord;

    fn next(&mut self) -> Option<TrafficRecord> {
        let increase = self.increases.next()?;
        Some(increase.record(self.time, self.length, &self.interfaces))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.increases.size_hint()
    }
}

impl<I: Interfaces> ExactSizeIterator for TrafficInterval<I> {}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(packets: u64, bytes: u64) -> [traffic_counts; 2] {
        let own = traffic_counts {
            packets,
            bytes,
            ..traffic_counts::default()
        };
        [own, traffic_counts::default()]
    }

    #[test]
    fn a_flow_that_began_anew_has_carried_what_it_says() {
        let before = counts(10, 15_000);
        assert_eq!(since(&counts(12, 15_100), &before), counts(2, 100));
        assert_eq!(since(&counts(3, 120), &before), counts(3, 120));
        assert_eq!(since(&counts(12, 480), &before), counts(12, 480));
    }

    #[cfg(feature = "live")]
    #[test]
    fn what_is_kept_is_what_was_given() {
        let mut lossy = counts(3, 4_500);
        (lossy[0].segments, lossy[1].lost, lossy[1].lost_bytes) = (2, 1, 1_448);
        let mut kept = Kept::default();
        assert_eq!(kept.counts(), counts(0, 0));
        kept.set(counts(3, 4_500));
        assert!(kept.all.is_none());
        kept.add(&lossy);
        kept.add(&lossy);
        let mut sum = counts(9, 13_500);
        (sum[0].segments, sum[1].lost, sum[1].lost_bytes) = (4, 2, 2_896);
        assert_eq!(kept.counts(), sum);
        let many = counts(1 << 32, 1 << 40);
        kept.set(many);
        assert_eq!(kept.counts(), many);
    }
}
