//! The end of a transfer that receives the data.

use super::endpoint::{Endpoint, Host, Outgoing};
use crate::recorder::Measured;
use crate::timestamps::is_before_or_at;
use crate::wire::{Segment, flag};

/// How long one segment waits for a second one to be acknowledged with, as in Linux.
const DELAYED_ACKNOWLEDGEMENT_NS: u64 = 40_000_000;

/// Acknowledges every second segment, at once what is out of order, and closes when the peer does.
#[derive(Debug)]
pub(super) struct Sink {
    endpoint: Endpoint,
    /// Ranges beyond a hole, first byte to the one after the last; the most recent first, as SACK
    /// wants them.
    out_of_order: Vec<(u32, u32)>,
    /// The peer's FIN, as the sequence number after it.
    end: Option<u32>,
    unacknowledged_segments: u32,
    delayed_until_ns: Option<u64>,
    answers: Option<Measured>,
    is_closed: bool,
}

impl Sink {
    pub(super) fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            out_of_order: Vec::new(),
            end: None,
            unacknowledged_segments: 0,
            delayed_until_ns: None,
            answers: None,
            is_closed: false,
        }
    }

    fn acknowledge(&mut self, now_ns: u64) -> Outgoing {
        self.unacknowledged_segments = 0;
        self.delayed_until_ns = None;
        let answers = self.answers.take();
        if self.end == Some(self.endpoint.expected) && !self.is_closed {
            self.is_closed = true;
            return self
                .endpoint
                .send_until_answered(now_ns, 1, flag::FIN | flag::ACK, answers);
        }
        let offset = if self.is_closed { 2 } else { 1 };
        let mut segment = self.endpoint.segment(now_ns, offset, flag::ACK, 0);
        for (block, range) in segment.sack_blocks.iter_mut().zip(&self.out_of_order) {
            *block = Some(*range);
        }
        Outgoing {
            segment,
            is_retransmission: false,
            answers,
        }
    }

    /// Takes data or a FIN; returns whether it has to be acknowledged at once.
    fn take(&mut self, segment: &Segment, measured: Measured) -> bool {
        let (start, end) = (segment.sequence, segment.end());
        if segment.has(flag::FIN) {
            self.end = Some(end);
        }
        if is_before_or_at(end, self.endpoint.expected) {
            return true;
        }
        if start != self.endpoint.expected {
            self.keep((start, end));
            return true;
        }
        self.endpoint.expected = end;
        let is_hole_filled = self.release();
        // Where a hole was filled the number jumps: the packet it ends with arrived long before.
        self.answers = (!is_hole_filled).then_some(measured);
        self.unacknowledged_segments += 1;
        is_hole_filled
            || !self.out_of_order.is_empty()
            || segment.has(flag::FIN)
            || self.unacknowledged_segments >= 2
    }

    /// Adds a range beyond a hole, joined with those it touches.
    fn keep(&mut self, (mut start, mut end): (u32, u32)) {
        self.out_of_order.retain(|&(other_start, other_end)| {
            let is_touching =
                is_before_or_at(other_start, end) && is_before_or_at(start, other_end);
            if is_touching {
                start = if is_before_or_at(other_start, start) {
                    other_start
                } else {
                    start
                };
                end = if is_before_or_at(end, other_end) {
                    other_end
                } else {
                    end
                };
            }
            !is_touching
        });
        self.out_of_order.insert(0, (start, end));
    }

    /// Moves the expected number over the ranges it has reached; returns whether there were any.
    fn release(&mut self) -> bool {
        let ranges = self.out_of_order.len();
        let expected = &mut self.endpoint.expected;
        self.out_of_order.retain(|&(start, end)| {
            let is_reached = is_before_or_at(start, *expected);
            if is_reached && is_before_or_at(*expected, end) {
                *expected = end;
            }
            !is_reached
        });
        self.out_of_order.len() < ranges
    }
}

impl Host for Sink {
    fn start(&mut self, now_ns: u64, outgoing: &mut Vec<Outgoing>) {
        outgoing.extend(self.endpoint.open(now_ns));
    }

    fn receive(
        &mut self,
        now_ns: u64,
        segment: &Segment,
        measured: Measured,
        outgoing: &mut Vec<Outgoing>,
    ) {
        self.endpoint.timestamps.receive(segment);
        if segment.has(flag::ACK) {
            self.endpoint.answered(segment.acknowledgement);
        }
        if segment.has(flag::SYN) {
            outgoing.push(self.endpoint.accept(now_ns, segment, measured));
            return;
        }
        if segment.sequence_length() == 0 {
            return;
        }
        if self.take(segment, measured) {
            outgoing.push(self.acknowledge(now_ns));
        } else {
            self.delayed_until_ns = Some(now_ns + DELAYED_ACKNOWLEDGEMENT_NS);
        }
    }

    fn deadline_ns(&self) -> Option<u64> {
        [self.endpoint.deadline_ns(), self.delayed_until_ns]
            .into_iter()
            .flatten()
            .min()
    }

    fn timeout(&mut self, now_ns: u64, outgoing: &mut Vec<Outgoing>) {
        outgoing.extend(self.endpoint.repeat(now_ns));
        if self
            .delayed_until_ns
            .is_some_and(|deadline_ns| deadline_ns <= now_ns)
        {
            outgoing.push(self.acknowledge(now_ns));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEASURED: Measured = Measured {
        captured_at_us: 0,
        is_syn: false,
        transit_ns: None,
    };

    fn sink_at(expected: u32) -> Sink {
        let mut endpoint = Endpoint::new(false, true, 0, 0);
        endpoint.expected = expected;
        Sink::new(endpoint)
    }

    fn receive(sink: &mut Sink, sequence: u32) -> Vec<Outgoing> {
        let mut outgoing = Vec::new();
        let segment = Segment {
            sequence,
            payload_bytes: 10,
            flags: flag::ACK,
            ..Segment::default()
        };
        sink.receive(1, &segment, MEASURED, &mut outgoing);
        outgoing
    }

    #[test]
    fn every_second_segment_is_acknowledged_and_one_alone_after_40_ms() {
        let mut sink = sink_at(u32::MAX - 9);
        assert!(receive(&mut sink, u32::MAX - 9).is_empty());
        let outgoing = receive(&mut sink, 0);
        assert_eq!(outgoing[0].segment.acknowledgement, 10);
        assert_eq!(outgoing[0].answers, Some(MEASURED));
        assert!(receive(&mut sink, 10).is_empty());
        assert_eq!(sink.deadline_ns(), Some(1 + DELAYED_ACKNOWLEDGEMENT_NS));
        let mut outgoing = Vec::new();
        sink.timeout(1 + DELAYED_ACKNOWLEDGEMENT_NS, &mut outgoing);
        assert_eq!(outgoing[0].segment.acknowledgement, 20);
        assert_eq!(sink.deadline_ns(), None);
    }

    #[test]
    fn a_hole_gives_sack_blocks_and_its_filling_no_answer() {
        let mut sink = sink_at(0);
        assert_eq!(
            receive(&mut sink, 10)[0].segment.sack_blocks,
            [Some((10, 20)), None, None]
        );
        assert_eq!(
            receive(&mut sink, 30)[0].segment.sack_blocks,
            [Some((30, 40)), Some((10, 20)), None]
        );
        assert_eq!(
            receive(&mut sink, 20)[0].segment.sack_blocks,
            [Some((10, 40)), None, None]
        );
        let outgoing = receive(&mut sink, 0);
        assert_eq!(
            (outgoing[0].segment.acknowledgement, outgoing[0].answers),
            (40, None)
        );
        assert_eq!(outgoing[0].segment.sack_blocks, [None; 3]);
    }
}
