//! What both ends of a transfer have in common: numbers, clocks, and the repetition of what was not
//! answered.

use crate::recorder::Measured;
use crate::timestamps::HostTimestamps;
use crate::wire::{Segment, flag};

/// First timeout of a SYN or FIN, in nanoseconds; it doubles with every repetition (RFC 6298).
const INITIAL_TIMEOUT_NS: u64 = 1_000_000_000;

/// A segment that a host wants to send now.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outgoing {
    pub(super) segment: Segment,
    pub(super) is_retransmission: bool,
    pub(super) answers: Option<Measured>,
}

/// One end of a simulated connection: reacts to segments and to its timer, at times it is told.
pub(super) trait Host {
    /// Opens the connection, if this is the side that does.
    fn start(&mut self, now_ns: u64, outgoing: &mut Vec<Outgoing>);
    /// Takes a segment that arrived.
    fn receive(
        &mut self,
        now_ns: u64,
        segment: &Segment,
        measured: Measured,
        outgoing: &mut Vec<Outgoing>,
    );
    /// When [`Host::timeout`] wants to be called, if at all.
    fn deadline_ns(&self) -> Option<u64>;
    /// Does what was to be done at the deadline.
    fn timeout(&mut self, now_ns: u64, outgoing: &mut Vec<Outgoing>);
}

/// The numbers of one end of a connection.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) is_client: bool,
    pub(super) initial_sequence: u32,
    /// The next sequence number expected from the peer.
    pub(super) expected: u32,
    pub(super) timestamps: HostTimestamps,
    has_timestamps: bool,
    repetition: Option<Repetition>,
}

/// A SYN or FIN that waits for its answer.
#[derive(Debug, Clone, Copy)]
struct Repetition {
    offset: u32,
    flags: u8,
    deadline_ns: u64,
    timeout_ns: u64,
}

impl Endpoint {
    pub(super) fn new(
        is_client: bool,
        has_timestamps: bool,
        initial_sequence: u32,
        clock_offset: u32,
    ) -> Self {
        let timestamps = HostTimestamps::new(clock_offset);
        Self {
            is_client,
            initial_sequence,
            expected: 0,
            timestamps,
            has_timestamps,
            repetition: None,
        }
    }

    /// A segment that starts `offset` after the initial sequence number and acknowledges all that
    /// is expected.
    pub(super) fn segment(
        &mut self,
        now_ns: u64,
        offset: u32,
        flags: u8,
        payload_bytes: u16,
    ) -> Segment {
        let timestamps = self.timestamps.send(now_ns, self.expected);
        Segment {
            sequence: self.initial_sequence.wrapping_add(offset),
            acknowledgement: self.expected,
            flags,
            payload_bytes,
            timestamps: self.has_timestamps.then_some(timestamps),
            ..Segment::default()
        }
    }

    /// A SYN or FIN, which is repeated until [`Endpoint::answered`].
    pub(super) fn send_until_answered(
        &mut self,
        now_ns: u64,
        offset: u32,
        flags: u8,
        answers: Option<Measured>,
    ) -> Outgoing {
        let is_retransmission = self
            .repetition
            .is_some_and(|repetition| repetition.offset == offset);
        let (deadline_ns, timeout_ns) = (now_ns + INITIAL_TIMEOUT_NS, INITIAL_TIMEOUT_NS);
        self.repetition = Some(Repetition {
            offset,
            flags,
            deadline_ns,
            timeout_ns,
        });
        Outgoing {
            segment: self.segment(now_ns, offset, flags, 0),
            is_retransmission,
            answers,
        }
    }

    /// Takes note of an acknowledgement number: what it covers is not repeated any more.
    pub(super) fn answered(&mut self, acknowledgement: u32) {
        let offset = acknowledgement.wrapping_sub(self.initial_sequence);
        self.repetition = self
            .repetition
            .filter(|repetition| offset <= repetition.offset);
    }

    /// When the unanswered SYN or FIN is due again.
    pub(super) fn deadline_ns(&self) -> Option<u64> {
        self.repetition.map(|repetition| repetition.deadline_ns)
    }

    /// Repeats the SYN or FIN if it is due.
    pub(super) fn repeat(&mut self, now_ns: u64) -> Option<Outgoing> {
        let due = self
            .repetition
            .as_mut()
            .filter(|repetition| repetition.deadline_ns <= now_ns)?;
        due.timeout_ns *= 2;
        due.deadline_ns = now_ns + due.timeout_ns;
        let (offset, flags) = (due.offset, due.flags);
        Some(Outgoing {
            segment: self.segment(now_ns, offset, flags, 0),
            is_retransmission: true,
            answers: None,
        })
    }

    /// Opens the connection, if this is the client.
    pub(super) fn open(&mut self, now_ns: u64) -> Option<Outgoing> {
        self.is_client
            .then(|| self.send_until_answered(now_ns, 0, flag::SYN, None))
    }

    /// Answers a SYN or a SYN-ACK.
    pub(super) fn accept(
        &mut self,
        now_ns: u64,
        segment: &Segment,
        measured: Measured,
    ) -> Outgoing {
        self.expected = segment.end();
        if self.is_client {
            Outgoing {
                segment: self.segment(now_ns, 1, flag::ACK, 0),
                is_retransmission: false,
                answers: Some(measured),
            }
        } else {
            self.send_until_answered(now_ns, 0, flag::SYN | flag::ACK, Some(measured))
        }
    }
}
