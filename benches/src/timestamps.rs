//! TCP timestamps (RFC 7323): the clock and echo of a host, and the samples that are there to be
//! found at a capture point.

use std::collections::VecDeque;

use crate::recorder::Measured;
use crate::wire::{Segment, Timestamps, flag};

/// Nanoseconds of one tick of every simulated timestamp clock, the 1 ms of Linux.
const TICK_NS: u64 = 1_000_000;

/// The timestamp clock and the echo rule of one host for one connection.
#[derive(Debug, Clone)]
pub(crate) struct HostTimestamps {
    offset: u32,
    recent: u32,
    last_acknowledgement_sent: u32,
}

impl HostTimestamps {
    /// A host whose clock reads `offset` at time zero.
    pub(crate) fn new(offset: u32) -> Self {
        Self {
            offset,
            recent: 0,
            last_acknowledgement_sent: 0,
        }
    }

    /// Takes the value of an arriving segment if it is the one to echo (RFC 7323, 4.3): the segment
    /// holds the byte expected since the last acknowledgement sent, so that a delayed
    /// acknowledgement echoes the earliest segment it covers.
    pub(crate) fn receive(&mut self, segment: &Segment) {
        let Some(Timestamps { value, .. }) = segment.timestamps else {
            return;
        };
        let is_left_edge = is_before_or_at(segment.sequence, self.last_acknowledgement_sent);
        if segment.has(flag::SYN) || (is_left_edge && is_before_or_at(self.recent, value)) {
            self.recent = value;
        }
    }

    /// The option of a segment sent at `now_ns` with this acknowledgement number.
    pub(crate) fn send(&mut self, now_ns: u64, acknowledgement: u32) -> Timestamps {
        self.last_acknowledgement_sent = acknowledgement;
        Timestamps {
            value: self.offset.wrapping_add((now_ns / TICK_NS) as u32),
            echo: self.recent,
        }
    }
}

/// Whether `first` comes before `second`, or is equal, on a circle of 32 bits.
pub(crate) fn is_before_or_at(first: u32, second: u32) -> bool {
    second.wrapping_sub(first).cast_signed() >= 0
}

/// The values seen in one direction at the capture point that no echo has answered yet.
///
/// This is the definition of the `timestamp` samples in the truth file, without any bound: the
/// first segment with a value newer than all before it is measured if it carries data, SYN or FIN,
/// and the first acknowledgement that echoes exactly this value ends the sample.
#[derive(Debug, Default)]
pub(crate) struct PendingValues {
    newest: Option<u32>,
    pending: VecDeque<(u32, Measured)>,
}

impl PendingValues {
    /// Takes note of a segment that passed in the measured direction.
    pub(crate) fn passed(&mut self, segment: &Segment, measured: Measured) {
        let Some(Timestamps { value, .. }) = segment.timestamps else {
            return;
        };
        if self
            .newest
            .is_some_and(|newest| is_before_or_at(value, newest))
        {
            return;
        }
        self.newest = Some(value);
        if segment.sequence_length() > 0 {
            self.pending.push_back((value, measured));
        }
    }

    /// What the echo in a segment of the other direction answers.
    pub(crate) fn answered(&mut self, segment: &Segment) -> Option<Measured> {
        let Timestamps { echo, .. } = segment.timestamps.filter(|_| segment.has(flag::ACK))?;
        while let Some(&(value, measured)) = self.pending.front() {
            if !is_before_or_at(value, echo) {
                return None;
            }
            self.pending.pop_front();
            if value == echo {
                return Some(measured);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(sequence: u32, payload_bytes: u16, value: u32, echo: u32) -> Segment {
        let timestamps = Some(Timestamps { value, echo });
        Segment {
            sequence,
            payload_bytes,
            flags: flag::ACK,
            timestamps,
            ..Segment::default()
        }
    }

    fn measured(captured_at_us: u64) -> Measured {
        Measured {
            captured_at_us,
            is_syn: false,
            transit_ns: Some(1),
        }
    }

    #[test]
    fn a_delayed_acknowledgement_echoes_the_first_segment_it_covers() {
        let mut host = HostTimestamps::new(0);
        host.send(0, 100);
        host.receive(&segment(100, 50, 7, 0));
        host.receive(&segment(150, 50, 8, 0));
        assert_eq!(host.send(5_000_000, 200), Timestamps { value: 5, echo: 7 });
        host.receive(&segment(250, 50, 9, 0)); // beyond a hole
        assert_eq!(host.send(5_000_000, 200).echo, 7);
        host.receive(&segment(200, 50, 11, 0)); // fills it
        assert_eq!(host.send(5_000_000, 300).echo, 11);
    }

    #[test]
    fn only_the_first_segment_with_a_new_value_is_measured_and_only_once() {
        let mut values = PendingValues::default();
        values.passed(&segment(0, 10, u32::MAX, 0), measured(1));
        values.passed(&segment(10, 10, u32::MAX, 0), measured(2));
        values.passed(&segment(20, 0, 0, 0), measured(3)); // newer after the wrap, but a pure acknowledgement
        values.passed(&segment(20, 10, 0, 0), measured(4));
        values.passed(&segment(30, 10, 1, 0), measured(5));
        assert_eq!(
            values.answered(&segment(0, 0, 0, u32::MAX)),
            Some(measured(1))
        );
        assert_eq!(values.answered(&segment(0, 0, 0, u32::MAX)), None);
        assert_eq!(values.answered(&segment(0, 0, 0, 0)), None);
        assert_eq!(values.answered(&segment(0, 0, 0, 1)), Some(measured(5)));
    }

    #[test]
    fn an_echo_that_jumps_over_values_ends_them() {
        let mut values = PendingValues::default();
        for value in 1..=3 {
            values.passed(&segment(value, 1, value, 0), measured(u64::from(value)));
        }
        assert_eq!(values.answered(&segment(0, 0, 0, 3)), Some(measured(3)));
        assert_eq!(values.answered(&segment(0, 0, 0, 2)), None);
    }
}
