//! What the other direction of a capture tells of the same responses: a check of the estimates that
//! needs nothing but the capture.

use std::collections::VecDeque;

use crate::native::{fathom_reading, packet};
use crate::response::native::{RESPONSE_STARTS_OVER, response_flow};

/// Segments that wait for their acknowledgement, at most.
const SEGMENTS: usize = 256;
/// The number of the protocol.
const TCP: u32 = 6;
/// Flags of its header (RFC 9293, section 3.1).
const SYN: u8 = 1 << 1;
const RST: u8 = 1 << 2;
const ACK: u8 = 1 << 4;

/// Responses of a flow as the packets of the server show them: from the first request of a batch to
/// the last packet with data that the client had when it sent the next, which its acknowledgement
/// tells, and on to the client.
#[derive(Debug, Clone, Default)]
pub(super) struct Responses {
    /// When the batch that is under way began, in nanoseconds; 0: none is.
    batch: u64,
    /// Does a gap of it not count?
    is_spoilt: bool,
    /// When the last packet with data passed that the client has had since; 0: none.
    answered: u64,
    /// Segments of the server whose acknowledgement has not passed.
    segments: VecDeque<Segment>,
    /// What the client has acknowledged.
    acknowledged: Option<u32>,
    /// From here to the client and back, in nanoseconds: the least time to an acknowledgement.
    client_rtt: Option<u64>,
    sum: u64,
    count: u32,
}

#[derive(Debug, Clone, Copy)]
struct Segment {
    /// When it passed, in nanoseconds.
    time: u64,
    /// What more than this acknowledges a part of it. Where the server's host was captured, it may
    /// be several on the way.
    begin: u32,
    /// What acknowledges it.
    end: u32,
    /// Which of several is acknowledged is not known.
    is_repeated: bool,
}

impl Responses {
    /// Nothing seen but the handshake, which may tell the round trip to the client.
    pub(super) fn new(client_rtt: Option<u64>) -> Self {
        Self {
            client_rtt,
            ..Self::default()
        }
    }

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
        if self.acknowledged.is_some_and(is_known) {
            return;
        }
        let is_repeated = self.segments.iter().any(|segment| segment.end == end);
        self.segments.push_back(Segment {
            time: now,
            begin: packet.seq,
            end,
            is_repeated,
        });
        if self.segments.len() > SEGMENTS {
            self.segments.pop_front();
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
        if !is_acknowledging(packet) {
            return;
        }
        self.acknowledged = Some(packet.ack);
        let is_behind = |edge: u32| packet.ack.wrapping_sub(edge).cast_signed();
        let arrived = self
            .segments
            .iter()
            .filter(|segment| is_behind(segment.begin) > 0);
        let Some(&newest) = arrived.max_by_key(|segment| segment.time) else {
            return;
        };
        self.segments.retain(|segment| is_behind(segment.end) < 0);
        for segment in &mut self.segments {
            if is_behind(segment.begin) > 0 {
                segment.begin = packet.ack;
            }
        }
        self.answered = newest.time;
        if !newest.is_repeated {
            let client_rtt = now.saturating_sub(newest.time);
            self.client_rtt = Some(
                self.client_rtt
                    .map_or(client_rtt, |least| least.min(client_rtt)),
            );
        }
    }

    /// A packet that counts as a request, or with more of one. `counts`: the gap before it does;
    /// else what it waits for begins with it.
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
        let client_rtt = self.client_rtt.unwrap_or_default() as f64;
        let average =
            (self.count > 0).then(|| self.sum as f64 / f64::from(self.count) + client_rtt);
        (self.sum, self.count) = (0, 0);
        average
    }
}

/// A reset may have anything in its field.
fn is_acknowledging(packet: &packet) -> bool {
    packet.key.protocol() == TCP && packet.tcp_flags & (ACK | RST) == ACK
}

/// Round trips to clients that handshakes tell, before the flows begin: from a SYN-ACK to what
/// acknowledges it. Few answers are acknowledged as promptly, and where none is before the next
/// request, what the client thinks would be taken for the network's time. Two connections at one
/// slot: the later one wins.
pub(super) struct Handshakes(Vec<Handshake>);

#[derive(Debug, Clone, Copy, Default)]
struct Handshake {
    hash: u64,
    /// The direction of the SYN-ACK.
    direction: u8,
    /// When it passed, in nanoseconds; 0: it did not, or more than once, or was acknowledged.
    time: u64,
    client_rtt: Option<u64>,
}

impl Handshakes {
    pub(super) fn new(slots: usize) -> Self {
        Self(vec![Handshake::default(); slots])
    }

    fn slot(&mut self, hash: u64) -> Option<&mut Handshake> {
        let slots = self.0.len() as u64;
        let index = hash.checked_rem(slots)?;
        self.0.get_mut(usize::try_from(index).ok()?)
    }

    /// A packet of any flow.
    pub(super) fn on_packet(&mut self, reading: &fathom_reading, now: u64) {
        let packet = &reading.packet;
        let Some(slot) = self.slot(reading.hash).filter(|_| is_acknowledging(packet)) else {
            return;
        };
        if packet.tcp_flags & SYN != 0 {
            let is_first = slot.hash != reading.hash || slot.client_rtt.is_some();
            *slot = Handshake {
                hash: reading.hash,
                direction: packet.direction,
                time: if is_first { now } else { 0 },
                client_rtt: None,
            };
        } else if slot.hash == reading.hash && slot.time != 0 && slot.direction != packet.direction
        {
            slot.client_rtt = Some(now.saturating_sub(slot.time));
            slot.time = 0;
        }
    }

    /// Takes the round trip to the client of a flow that begins.
    pub(super) fn take(&mut self, hash: u64) -> Option<u64> {
        let slot = self.slot(hash).filter(|slot| slot.hash == hash)?;
        std::mem::take(slot).client_rtt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(seq: u32, ack: u32, payload: u32) -> fathom_reading {
        let mut reading = fathom_reading::default();
        reading.packet.key.set_protocol(TCP);
        (reading.packet.seq, reading.packet.ack) = (seq, ack);
        reading.packet.tcp_flags = ACK;
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
    fn what_is_acknowledged_in_parts_was_sent_in_parts_that_the_capture_has_as_one() {
        let mut responses = Responses::default();
        request(&mut responses, 1000, 0);
        responses.on_answer(&segment(0, 10, 3000), 1400);
        request(&mut responses, 1450, 1448);
        assert_eq!(responses.take(), Some(400.0 + 50.0), "and on to the client");
        // Its rest answers nothing that was asked since.
        responses.on_acknowledgement(&segment(0, 3000, 0), 1460);
        responses.on_answer(&segment(3000, 20, 100), 1850);
        request(&mut responses, 1900, 3100);
        assert_eq!(responses.take(), Some(400.0 + 50.0));
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

    #[test]
    fn resets_and_what_was_sent_twice_tell_nothing_of_the_way() {
        let mut responses = Responses::default();
        request(&mut responses, 1000, 0);
        responses.on_answer(&segment(0, 10, 100), 2000);
        let mut reset = segment(0, 1 << 30, 0);
        reset.packet.tcp_flags = RST;
        responses.on_acknowledgement(&reset, 2001);
        responses.on_answer(&segment(0, 10, 100), 2048);
        request(&mut responses, 2050, 100);
        assert_eq!(responses.client_rtt, None);
    }

    #[test]
    fn a_handshake_tells_the_way_unless_its_answer_was_repeated() {
        let mut handshakes = Handshakes::new(4);
        let mut greet = |hash, repeats| {
            let mut answer = segment(0, 1, 0);
            (answer.hash, answer.packet.tcp_flags) = (hash, SYN | ACK);
            answer.packet.direction = 1;
            for _ in 0..=repeats {
                handshakes.on_packet(&answer, 1000);
            }
            let mut acknowledgement = segment(1, 1, 0);
            acknowledgement.hash = hash;
            handshakes.on_packet(&acknowledgement, 1070);
            handshakes.take(hash)
        };
        assert_eq!(
            (greet(7, 0), greet(7, 1), greet(7, 0)),
            (Some(70), None, Some(70))
        );
    }
}
