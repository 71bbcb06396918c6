//! The device between the script and the kernel, and what came out of it.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use super::segment::Segment;
use crate::link::Device;
use crate::{Error, Result};

/// The longest packet that a device passes in one piece.
const PACKET_BYTES: usize = 1 << 16;
/// Segments that may wait to be looked at; a script that leaves more has gone astray.
const WAITING_MAXIMUM: usize = 1 << 16;
/// How soon a script sees what a script on another thread read.
const POLL_MAXIMUM: Duration = Duration::from_millis(5);

/// What happens to the segments before the wanted one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Earlier {
    /// They are passed over for good.
    Skip,
    /// They wait to be asked for.
    Keep,
}

/// The place where script and kernel meet: packets go in by `send` and come out by `take` and
/// `drain`.
#[derive(Debug)]
pub(super) struct Wire {
    device: Device,
    waiting: Mutex<Waiting>,
}

/// What the kernel sent and nobody has asked for yet.
#[derive(Debug)]
struct Waiting {
    /// Where packets are read into.
    buffer: Box<[u8]>,
    segments: VecDeque<Segment>,
}

/// Which segments are looked for.
#[derive(Clone, Copy)]
pub(super) struct Search<'predicates> {
    /// What happens to the candidates that are not wanted.
    pub(super) earlier: Earlier,
    /// The others stay, whatever happens.
    pub(super) is_candidate: &'predicates dyn Fn(&Segment) -> bool,
    /// The first candidate of which this is true ends the search.
    pub(super) is_wanted: &'predicates dyn Fn(&Segment) -> bool,
}

impl Wire {
    pub(super) fn new(device: Device) -> Self {
        Self {
            device,
            waiting: Mutex::new(Waiting {
                buffer: vec![0; PACKET_BYTES].into_boxed_slice(),
                segments: VecDeque::new(),
            }),
        }
    }

    pub(super) fn send(&self, packet: &[u8]) -> Result<()> {
        self.device
            .write(packet)
            .map_err(|source| Error::runtime("hand a packet of the script to the kernel", source))
    }

    /// Waits for what is looked for; `passed` gets the candidates skipped on the way, also when it
    /// does not come.
    pub(super) fn take(
        &self,
        patience: Duration,
        search: Search<'_>,
        passed: &mut Vec<Segment>,
    ) -> Result<Segment> {
        let deadline = Instant::now() + patience;
        loop {
            // Looked at before the device is, so that what came in time is found even if this
            // thread had no CPU.
            let rest = deadline.saturating_duration_since(Instant::now());
            if let Some(segment) = self.read()?.take(search, passed) {
                return Ok(segment);
            }
            if rest.is_zero() {
                return Err(Error::Deadline {
                    what: self.describe_failure(search, passed),
                    waited: patience,
                });
            }
            let mut events = [PollFd::new(self.device.as_fd(), PollFlags::POLLIN)];
            let rest = TimeSpec::from_duration(rest.min(POLL_MAXIMUM));
            // A failure shows in the read that follows.
            let _ = ppoll(&mut events, Some(rest), None);
        }
    }

    /// Removes all candidates that are there.
    pub(super) fn drain(&self, is_candidate: impl Fn(&Segment) -> bool) -> Result<Vec<Segment>> {
        let mut waiting = self.read()?;
        let (taken, left): (VecDeque<_>, _) = waiting.segments.drain(..).partition(is_candidate);
        waiting.segments = left;
        Ok(taken.into())
    }

    /// Takes all segments that the kernel has sent out of the device.
    fn read(&self) -> Result<MutexGuard<'_, Waiting>> {
        let failed = |source| Error::runtime("read what the kernel sends to the script", source);
        let mut waiting = self.lock();
        let Waiting { buffer, segments } = &mut *waiting;
        while let Some(length) = self.device.read(buffer).map_err(failed)? {
            segments.extend(Segment::parse(&buffer[..length]));
            if segments.len() > WAITING_MAXIMUM {
                return Err(failed(io::ErrorKind::QuotaExceeded.into()));
            }
        }
        Ok(waiting)
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Whoever panicked left a queue that is whole.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn describe_failure(&self, search: Search<'_>, passed: &[Segment]) -> String {
        let waiting = self.lock();
        let kept = waiting
            .segments
            .iter()
            .filter(|it| (search.is_candidate)(it));
        let lines: Vec<_> = passed.iter().chain(kept).map(Segment::to_string).collect();
        match lines.as_slice() {
            [] => "a segment of the kernel, which sent none".to_owned(),
            lines => format!("a segment unlike\n  {}", lines.join("\n  ")),
        }
    }
}

impl Waiting {
    fn take(&mut self, search: Search<'_>, passed: &mut Vec<Segment>) -> Option<Segment> {
        let mut place = 0;
        while let Some(segment) = self.segments.get(place) {
            let is_candidate = (search.is_candidate)(segment);
            if is_candidate && (search.is_wanted)(segment) {
                return self.segments.remove(place);
            }
            if is_candidate && search.earlier == Earlier::Skip {
                passed.extend(self.segments.remove(place));
            } else {
                place += 1;
            }
        }
        None
    }
}
