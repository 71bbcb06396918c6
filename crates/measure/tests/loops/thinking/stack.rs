//! The client's end of a connection: which timestamp it echoes, and when it acknowledges (as Linux
//! does).

use std::time::Duration;

/// A request that is sent sooner than this after data has come makes the connection one that goes
/// both ways (Linux: `ato`, pingpong).
const INTERACTIVE_NS: u64 = 40_000_000;
pub(super) const SEGMENT_BYTES: u32 = 1_448;

/// A timestamp of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Stamp {
    pub(super) value: u32,
    /// When its tick began, in ns since 1970.
    pub(super) began_ns: u64,
}

/// What the stack does about a segment that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Acknowledgement {
    AtOnce,
    /// If nothing else has acknowledged it by then.
    After(Duration),
    /// It was waiting already.
    Pending,
}

#[derive(Debug, Default)]
pub(super) struct Stack {
    /// Bytes that were sent, received, and acknowledged.
    pub(super) sent: u32,
    pub(super) received: u32,
    pub(super) told: u32,
    /// RFC 7323, section 4.3: TS.Recent.
    pub(super) recent: Stamp,
    delayed: Option<Duration>,
    is_interactive: bool,
    received_ns: u64,
}

impl Stack {
    pub(super) fn new(delayed: Option<Duration>) -> Self {
        Self {
            delayed,
            ..Self::default()
        }
    }

    /// A segment with data, in order.
    pub(super) fn receive(&mut self, now: u64, bytes: u32, stamp: Stamp) -> Acknowledgement {
        let was_told = self.received == self.told;
        if was_told {
            self.recent = stamp;
        }
        self.received += bytes;
        self.received_ns = now;
        match self.delayed {
            Some(delay) if self.is_interactive && self.received - self.told <= SEGMENT_BYTES => {
                if was_told {
                    Acknowledgement::After(delay)
                } else {
                    Acknowledgement::Pending
                }
            }
            _ => Acknowledgement::AtOnce,
        }
    }

    /// An acknowledgement that waited since `told` bytes were acknowledged is due. Returns whether
    /// it is sent.
    pub(super) fn is_due(&mut self, told: u32) -> bool {
        let is_due = self.told == told && self.received != told;
        if is_due {
            self.is_interactive = false;
        }
        is_due
    }

    /// Data is sent, which acknowledges all that has come.
    pub(super) fn send(&mut self, now: u64, bytes: u32) {
        self.is_interactive |= self.received > 0 && now - self.received_ns < INTERACTIVE_NS;
        self.sent += bytes;
        self.told = self.received;
    }
}
