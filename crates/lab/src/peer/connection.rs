//! A TCP connection as the script keeps it: numbers only, the script decides what is sent.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::kernel::{Kernel, is_after};
use super::options::{TcpOptions, Timestamps};
use super::segment::Segment;
use super::wire::{Earlier, Search, Wire};
use crate::Result;
use crate::link::TcpFlags;

/// Period of [`Connection::payload`], a prime, so that a byte in a wrong place is seen.
const PAYLOAD_PERIOD: u32 = 251;

/// What the script offers when a connection opens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
    /// The script's initial sequence number (ISS); its data starts one after it.
    pub initial_sequence: u32,
    /// The window field of its segments.
    pub window: u16,
    /// Most payload bytes that the kernel may put into a segment.
    pub maximum_segment_size: Option<u16>,
    /// Bits by which its windows are shifted; without it, neither side's are.
    pub window_scale: Option<u8>,
    /// Whether the kernel may send selective acknowledgements, and gets some.
    pub is_sack_permitted: bool,
    /// The script's clock, TSval of its first segment; the clock stands still until
    /// [`Connection::set_clock`].
    pub clock: Option<u32>,
}

impl Default for Opening {
    /// All options, windows in bytes, and a sequence number far from its wrap.
    fn default() -> Self {
        Self {
            initial_sequence: 1_000_000,
            window: u16::MAX,
            maximum_segment_size: Some(1400),
            window_scale: Some(0),
            is_sack_permitted: true,
            clock: Some(1_000_000),
        }
    }
}

/// One connection between script and kernel.
///
/// Its methods build segments with the numbers that would be right now; the script alters them as
/// it likes and sends them, or does not. Offsets count the bytes of one direction from zero,
/// wherever its sequence numbers start and wrap.
#[derive(Debug)]
pub struct Connection {
    wire: Arc<Wire>,
    local: SocketAddr,
    remote: SocketAddr,
    opening: Opening,
    /// Its sequence numbers count as sent up to here.
    next: u32,
    /// What the kernel's SYN told, once it came.
    kernel: Option<Kernel>,
}

impl Connection {
    pub(super) fn new(
        wire: &Arc<Wire>,
        local: SocketAddr,
        remote: SocketAddr,
        opening: Opening,
    ) -> Self {
        Self {
            wire: Arc::clone(wire),
            local,
            remote,
            next: opening.initial_sequence,
            opening,
            kernel: None,
        }
    }

    /// The script's address and port.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// The kernel's address and port.
    pub fn remote(&self) -> SocketAddr {
        self.remote
    }

    /// The initial sequence number of the kernel, once its SYN was seen.
    pub fn kernel_initial_sequence(&self) -> Option<u32> {
        self.kernel.as_ref().map(|kernel| kernel.initial_sequence)
    }

    /// Payload bytes received from the kernel without a gap; its FIN counts as one.
    pub fn received(&self) -> u32 {
        self.kernel
            .as_ref()
            .map_or(0, |kernel| kernel.offset(kernel.next))
    }

    /// Payload bytes sent so far, whether the kernel got them or not; the FIN counts as one.
    pub fn sent(&self) -> u32 {
        let first = self.sequence_at(0);
        if is_after(first, self.next) {
            return 0;
        }
        self.next.wrapping_sub(first)
    }

    /// The sequence number of the script's payload byte at `offset`; negative offsets lie before
    /// its data.
    pub fn sequence_at(&self, offset: i32) -> u32 {
        let first = self.opening.initial_sequence.wrapping_add(1);
        first.wrapping_add_signed(offset)
    }

    /// The sequence number of the kernel's payload byte at `offset`, meant for acknowledgements;
    /// zero before its SYN was seen.
    pub fn kernel_sequence_at(&self, offset: i32) -> u32 {
        self.kernel.as_ref().map_or(0, |kernel| {
            let first = kernel.initial_sequence.wrapping_add(1);
            first.wrapping_add_signed(offset)
        })
    }

    /// How many of the script's payload bytes `segment`, of the kernel, acknowledges.
    pub fn acknowledged_by(&self, segment: &Segment) -> u32 {
        segment.acknowledgement.wrapping_sub(self.sequence_at(0))
    }

    /// The selective acknowledgements of `segment`, of the kernel, as offsets of the script's
    /// payload.
    pub fn sacked_by(&self, segment: &Segment) -> Vec<(u32, u32)> {
        let offset = |sequence: u32| sequence.wrapping_sub(self.sequence_at(0));
        let blocks = segment.options.sack_blocks.iter();
        blocks
            .map(|&(from, to)| (offset(from), offset(to)))
            .collect()
    }

    /// The offset of the payload of `segment`, of the kernel.
    pub fn offset_of(&self, segment: &Segment) -> u32 {
        segment.sequence.wrapping_sub(self.kernel_sequence_at(0))
    }

    /// The window in bytes that `segment`, of the kernel, grants.
    pub fn window_of(&self, segment: &Segment) -> u32 {
        let scale = match &self.kernel {
            Some(kernel) if !segment.has(TcpFlags::SYN) => self
                .opening
                .window_scale
                .and(kernel.offered.window_scale)
                .unwrap_or_default(),
            _ => 0,
        };
        u32::from(segment.window) << scale
    }

    /// The script's clock, TSval of its segments; `None` without timestamps.
    pub fn clock(&self) -> Option<u32> {
        self.timestamps().map(|timestamps| timestamps.value)
    }

    /// Sets the script's clock, to any time; does nothing without timestamps.
    pub fn set_clock(&mut self, clock: u32) {
        self.opening.clock = self.opening.clock.map(|_| clock);
    }

    /// The script's SYN, or its SYN-ACK when the kernel's SYN was seen. An option that the kernel
    /// did not offer is not answered.
    pub fn syn(&self) -> Segment {
        let offered = self.kernel.as_ref().map(|kernel| &kernel.offered);
        let is_open = |is_offered: fn(&TcpOptions) -> bool| offered.is_none_or(is_offered);
        let options = TcpOptions {
            maximum_segment_size: self.opening.maximum_segment_size,
            window_scale: self
                .opening
                .window_scale
                .filter(|_| is_open(|offered| offered.window_scale.is_some())),
            is_sack_permitted: self.opening.is_sack_permitted
                && is_open(|offered| offered.is_sack_permitted),
            timestamps: self.timestamps(),
            ..TcpOptions::default()
        };
        Segment {
            sequence: self.opening.initial_sequence,
            flags: match self.kernel {
                Some(_) => TcpFlags::SYN | TcpFlags::ACK,
                None => TcpFlags::SYN,
            },
            options,
            ..self.ack()
        }
    }

    /// Acknowledges all that was received without a gap.
    pub fn ack(&self) -> Segment {
        Segment {
            source: self.local,
            destination: self.remote,
            sequence: self.next,
            acknowledgement: self.kernel.as_ref().map_or(0, |kernel| kernel.next),
            flags: TcpFlags::ACK,
            window: self.opening.window,
            options: TcpOptions {
                timestamps: self.timestamps(),
                ..TcpOptions::default()
            },
            payload: Vec::new(),
            has_right_checksum: true,
        }
    }

    /// Acknowledges the first `received` bytes of the kernel's payload and, selectively, `blocks`:
    /// offsets of their first bytes and of the first after them.
    pub fn ack_of(&self, received: u32, blocks: &[(u32, u32)]) -> Segment {
        let sequence = |offset: u32| self.kernel_sequence_at(offset.cast_signed());
        let mut segment = self.ack();
        segment.acknowledgement = sequence(received);
        segment.options.sack_blocks = blocks
            .iter()
            .map(|&(from, to)| (sequence(from), sequence(to)))
            .collect();
        segment
    }

    /// The part of the script's payload of `length` bytes at `offset`, with an acknowledgement; in
    /// order if `offset` is [`Connection::sent`].
    pub fn data(&self, offset: u32, length: usize) -> Segment {
        Segment {
            sequence: self.sequence_at(offset.cast_signed()),
            flags: TcpFlags::PSH | TcpFlags::ACK,
            payload: Self::payload(offset, length),
            ..self.ack()
        }
    }

    /// What the script's payload is at any place, the same for all connections: offsets modulo 251.
    pub fn payload(offset: u32, length: usize) -> Vec<u8> {
        let offsets = (0..length as u32).map(|index| offset.wrapping_add(index));
        offsets
            .map(|offset| (offset % PAYLOAD_PERIOD) as u8)
            .collect()
    }

    /// Ends the script's payload after what was sent.
    pub fn fin(&self) -> Segment {
        Segment {
            flags: TcpFlags::FIN | TcpFlags::ACK,
            ..self.ack()
        }
    }

    /// Aborts the connection after what was sent.
    pub fn rst(&self) -> Segment {
        Segment {
            flags: TcpFlags::RST | TcpFlags::ACK,
            options: TcpOptions::default(),
            ..self.ack()
        }
    }

    /// Hands `segment` to the kernel; its end counts as sent if it is the farthest so far.
    ///
    /// # Errors
    /// [`Error::Runtime`](crate::Error::Runtime) when the segment cannot be built or the device is
    /// down.
    pub fn send(&mut self, segment: &Segment) -> Result<()> {
        self.wire.send(&segment.packet()?)?;
        let end = segment.sequence_end();
        // A zero-window probe or a reset of any number must not move the sequence.
        let is_consuming = end != segment.sequence && !segment.has(TcpFlags::RST);
        if is_consuming && is_after(end, self.next) {
            self.next = end;
        }
        Ok(())
    }

    /// Waits for the next segment of the kernel on this connection, whatever it is.
    ///
    /// # Errors
    /// [`Error::Deadline`](crate::Error::Deadline) when none comes within `patience`.
    pub fn next(&mut self, patience: Duration) -> Result<Segment> {
        self.take(patience, Earlier::Skip, &|_| true)
    }

    /// Waits for the first segment of the kernel on this connection that `is_wanted`; those before
    /// count as received but are passed over.
    ///
    /// # Errors
    /// [`Error::Deadline`](crate::Error::Deadline), telling what came instead, when none comes
    /// within `patience`.
    pub fn expect(
        &mut self,
        patience: Duration,
        is_wanted: impl Fn(&Segment) -> bool,
    ) -> Result<Segment> {
        self.take(patience, Earlier::Skip, &is_wanted)
    }

    /// As [`Connection::expect`], but those before can still be asked for and do not count as
    /// received until then.
    ///
    /// # Errors
    /// As [`Connection::expect`].
    pub fn expect_keeping(
        &mut self,
        patience: Duration,
        is_wanted: impl Fn(&Segment) -> bool,
    ) -> Result<Segment> {
        self.take(patience, Earlier::Keep, &is_wanted)
    }

    /// All segments that the kernel has sent on this connection and nobody has asked for, without
    /// waiting.
    ///
    /// The kernel takes in a segment before [`Connection::send`] returns, so that its direct answer
    /// is there; not there are what a timer of the kernel sends (delayed acknowledgements,
    /// retransmissions) and what waits because another thread is inside a call on the socket.
    ///
    /// # Errors
    /// [`Error::Runtime`](crate::Error::Runtime) when the device is gone.
    pub fn drain(&mut self) -> Result<Vec<Segment>> {
        let segments = self
            .wire
            .drain(|segment| segment.source == self.remote && segment.destination == self.local)?;
        for segment in &segments {
            self.observe(segment);
        }
        Ok(segments)
    }

    fn take(
        &mut self,
        patience: Duration,
        earlier: Earlier,
        is_wanted: &dyn Fn(&Segment) -> bool,
    ) -> Result<Segment> {
        let (local, remote) = (self.local, self.remote);
        let search = Search {
            earlier,
            is_candidate: &|segment| segment.source == remote && segment.destination == local,
            is_wanted,
        };
        let mut passed = Vec::new();
        let found = self.wire.take(patience, search, &mut passed);
        for segment in passed.iter().chain(&found) {
            self.observe(segment);
        }
        found
    }

    /// Takes note of a segment of the kernel.
    pub(super) fn observe(&mut self, segment: &Segment) {
        if segment.has(TcpFlags::RST) {
            return;
        }
        if segment.has(TcpFlags::SYN) && self.kernel.is_none() {
            self.kernel = Some(Kernel::new(segment));
        }
        if let Some(kernel) = &mut self.kernel {
            kernel.observe(segment);
        }
    }

    /// The timestamps of the next segment, unless one side has none.
    fn timestamps(&self) -> Option<Timestamps> {
        let value = self.opening.clock?;
        match &self.kernel {
            None => Some(Timestamps { value, echo: 0 }),
            Some(kernel) => kernel.offered.timestamps.map(|_| Timestamps {
                value,
                echo: kernel.clock,
            }),
        }
    }
}

impl fmt::Display for Connection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} with {}", self.local, self.remote)
    }
}
