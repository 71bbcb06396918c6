//! The end of a transfer that sends the data.

use super::endpoint::{Endpoint, Host, Outgoing};
use super::window::Window;
use crate::recorder::Measured;
use crate::wire::{Segment, flag};

/// Sends a number of full segments and a FIN as fast as its window allows.
#[derive(Debug)]
pub(super) struct Source {
    endpoint: Endpoint,
    /// Numbers the data segments from 0; the FIN is one more.
    window: Window,
    segments: u32,
    mss: u16,
    is_established: bool,
}

impl Source {
    pub(super) fn new(endpoint: Endpoint, segments: u32, mss: u16) -> Self {
        Self {
            endpoint,
            window: Window::new(segments + 1),
            segments,
            mss,
            is_established: false,
        }
    }

    /// Whether this end opens the connection.
    pub(super) fn is_client(&self) -> bool {
        self.endpoint.is_client
    }

    /// The number of the segment that starts at a sequence number, which is the count of those that
    /// end before it.
    fn index(&self, sequence: u32) -> u32 {
        let offset = sequence.wrapping_sub(self.endpoint.initial_sequence);
        let data_bytes = self.segments * u32::from(self.mss);
        if offset > data_bytes + 1 {
            self.segments + 1
        } else {
            offset.saturating_sub(1) / u32::from(self.mss)
        }
    }

    fn send_what_fits(&mut self, now_ns: u64, outgoing: &mut Vec<Outgoing>) {
        while let Some(transmission) = self.window.transmit(now_ns) {
            let offset = 1 + transmission.index * u32::from(self.mss);
            let (flags, payload_bytes) = match self.segments - transmission.index {
                0 => (flag::FIN | flag::ACK, 0),
                1 => (flag::PSH | flag::ACK, self.mss),
                _ => (flag::ACK, self.mss),
            };
            let segment = self.endpoint.segment(now_ns, offset, flags, payload_bytes);
            let is_retransmission = transmission.is_retransmission;
            outgoing.push(Outgoing {
                segment,
                is_retransmission,
                answers: None,
            });
        }
    }
}

impl Host for Source {
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
        }
        self.is_established |= segment.has(flag::ACK);
        if segment.has(flag::FIN) {
            self.endpoint.expected = segment.end();
        }
        if self.is_established {
            let blocks = segment
                .sack_blocks
                .map(|block| block.map(|(start, end)| (self.index(start), self.index(end))));
            self.window
                .acknowledge(now_ns, self.index(segment.acknowledgement), &blocks);
            self.send_what_fits(now_ns, outgoing);
        }
        if segment.has(flag::FIN) {
            let offset = 2 + self.segments * u32::from(self.mss);
            let segment = self.endpoint.segment(now_ns, offset, flag::ACK, 0);
            outgoing.push(Outgoing {
                segment,
                is_retransmission: false,
                answers: Some(measured),
            });
        }
    }

    fn deadline_ns(&self) -> Option<u64> {
        self.endpoint.deadline_ns().or(self.window.deadline_ns())
    }

    fn timeout(&mut self, now_ns: u64, outgoing: &mut Vec<Outgoing>) {
        outgoing.extend(self.endpoint.repeat(now_ns));
        if self
            .window
            .deadline_ns()
            .is_some_and(|deadline_ns| deadline_ns <= now_ns)
        {
            self.window.timeout(now_ns);
            self.send_what_fits(now_ns, outgoing);
        }
    }
}
