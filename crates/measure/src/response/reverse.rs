//! What the other direction of a capture tells of the same responses: a check of the estimates that needs nothing but the capture.

use std::collections::VecDeque;

use crate::native::{RESPONSE_STARTS_OVER, fathom_reading, response_flow};

/// Segments that wait for their acknowledgement, at most.
const SEGMENTS: usize = 256;
/// The number of the protocol.
const TCP: u32 = 6;

/// Responses of a flow as the packets of the server show them: from the first request of a batch to the last packet with data that the client
/// had when it sent the next, which its acknowledgement tells, and on to the client.
#[derive(Debug, Clone, Default)]
pub(super) struct Responses {
    /// When the batch that is under way began, in nanoseconds; 0: none is.
    batch: u64,
    /// Does a gap of it not count?
    is_spoilt: bool,
    /// When the last packet with data passed that the client has had since; 0: none.
    answered: u64,
    /// Segments of the server whose acknowledgement has not passed: when each passed, and what acknowledges it.
    segments: VecDeque<(u64, u32)>,
    /// What the client has acknowledged.
    acknowledged: Option<u32>,
    /// From here to the client and back, in nanoseconds: the least time to an acknowledgement.
    way: Option<u64>,
    sum: u64,
    count: u32,
}

impl Responses {
    /// A packet of the server.
    pub(super) fn on_answer(&mut self, reading: &fathom_reading, now: u64) {
        let packet = &reading.packet;
        if packet.payload == 0 {
            return;
        }
        if packet.key.protocol() != TCP {
            self.answered = now;
            return;
        }
        let end = packet.seq.wrapping_add(packet.payload);
        // Sent again, though the client has it.
        let is_known = |acknowledged: u32| acknowledged.wrapping_sub(end).cast_signed() >= 0;
        if !self.acknowledged.is_some_and(is_known) {
            self.segments.push_back((now, end));
            if self.segments.len() > SEGMENTS {
                self.segments.pop_front();
            }
        }
    }

    /// A packet of the client, of whose flow this was known before it, and after it.
    pub(super) fn on_client(
        &mut self,
        reading: &fathom_reading,
        now: u64,
        before: &response_flow,
        after: &response_flow,
    ) {
        self.on_acknowledgement(reading, now);
        let starts_over = |flow: &response_flow| u32::from(flow.flags) & RESPONSE_STARTS_OVER != 0;
        if after.last == before.last {
            return;
        }
        if starts_over(before) {
            self.start_over();
        }
        self.on_request(now, after.sent != before.sent);
        if starts_over(after) {
            self.start_over();
        }
    }

    fn on_acknowledgement(&mut self, reading: &fathom_reading, now: u64) {
        let packet = &reading.packet;
        if packet.key.protocol() != TCP {
            return;
        }
        self.acknowledged = Some(packet.ack);
        let is_acknowledged = |end: u32| packet.ack.wrapping_sub(end).cast_signed() >= 0;
        let mut newest = 0;
        self.segments.retain(|&(time, end)| {
            let is_acknowledged = is_acknowledged(end);
            if is_acknowledged {
                newest = newest.max(time);
            }
            !is_acknowledged
        });
        if newest != 0 {
            self.answered = newest;
            let way = now.saturating_sub(newest);
            self.way = Some(self.way.map_or(way, |least| least.min(way)));
        }
    }

    /// A packet that counts as a request, or with more of one. `counts`: the gap before it does; else what it waits for begins with it.
    pub(super) fn on_request(&mut self, now: u64, counts: bool) {
        if self.batch != 0 && self.answered == 0 {
            if !counts {
                self.batch = now;
            }
            return;
        }
        self.is_spoilt |= !counts;
        if self.batch != 0 && !self.is_spoilt {
            self.sum += self.answered.saturating_sub(self.batch);
            self.count += 1;
        }
        (self.batch, self.answered, self.is_spoilt) = (now, 0, false);
    }

    /// What is sent from now on is no answer to what was sent before.
    fn start_over(&mut self) {
        (self.batch, self.answered, self.is_spoilt) = (0, 0, false);
    }

    /// The average since the last call, in nanoseconds.
    pub(super) fn take(&mut self) -> Option<f64> {
        let way = self.way.unwrap_or_default() as f64;
        let average = (self.count > 0).then(|| self.sum as f64 / f64::from(self.count) + way);
        (self.sum, self.count) = (0, 0);
        average
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(seq: u32, ack: u32, payload: u32) -> fathom_reading {
        let mut reading = fathom_reading::default();
        reading.packet.key.set_protocol(TCP);
        (reading.packet.seq, reading.packet.ack) = (seq, ack);
        reading.packet.payload = payload;
        reading
    }

    /// A request of 10 bytes, with what it acknowledges.
    fn request(responses: &mut Responses, time: u64, ack: u32) {
        responses.on_acknowledgement(&segment(0, ack, 10), time);
        responses.on_request(time, true);
    }

    #[test]
    fn an_answer_in_parts_ends_with_the_part_that_the_client_had() {
        let mut responses = Responses::default();
        request(&mut responses, 1000, 0);
        responses.on_answer(&segment(0, 10, 100), 1400);
        responses.on_answer(&segment(100, 10, 100), 1500);
        // On its way to the client when that sends its next request.
        responses.on_answer(&segment(200, 10, 100), 1590);
        request(&mut responses, 1600, 200);
        assert_eq!(
            responses.take(),
            Some(500.0 + 100.0),
            "and on to the client"
        );
        request(&mut responses, 1700, 300);
        assert_eq!(
            responses.take(),
            Some(100.0),
            "what was sent before the request answers at once"
        );
    }

    #[test]
    fn requests_before_an_answer_are_one_batch_and_gaps_that_do_not_count_are_left_out() {
        let mut responses = Responses::default();
        request(&mut responses, 1000, 0);
        request(&mut responses, 1100, 0);
        responses.on_answer(&segment(0, 20, 100), 2000);
        request(&mut responses, 2050, 100);
        assert_eq!(responses.take(), Some(1050.0));
        responses.on_answer(&segment(100, 20, 100), 9000);
        responses.on_acknowledgement(&segment(0, 200, 10), 9050);
        responses.on_request(9050, false);
        assert_eq!(responses.take(), None);
        responses.start_over();
        request(&mut responses, 9500, 200);
        assert_eq!(responses.take(), None, "nothing was asked before");
    }
}
