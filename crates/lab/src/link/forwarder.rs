//! The thread of one direction: reads packets, asks the engine, releases them when due.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use nix::libc;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::prctl;
use nix::sys::time::TimeSpec;

use super::capture_file::CaptureFile;
use super::clock::monotonic_ns;
use super::device::{Device, Layer};
use super::direction::Direction;
use super::engine::{Decision, DropCause, Engine};
use super::header::PacketHeader;
use super::held::Held;
use super::truth::{Arrival, Fate, Ledger};

/// How long before a release the thread stops sleeping and watches the clock: an idle CPU needs
/// about 50 us to wake up.
const WATCH_NS: u64 = 100_000;

/// How the owner of a link talks to the thread of one direction.
#[derive(Debug)]
pub(crate) struct Control {
    is_stopped: AtomicBool,
    has_news: AtomicBool,
    next_direction: Mutex<Option<Direction>>,
    wake: EventFd,
    /// Kernel id of the thread, zero before it runs.
    pub(crate) thread_id: AtomicU64,
    /// Why the thread ended by itself.
    pub(crate) failure: OnceLock<String>,
}

impl Control {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            is_stopped: AtomicBool::new(false),
            has_news: AtomicBool::new(false),
            next_direction: Mutex::default(),
            wake: EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?,
            thread_id: AtomicU64::new(0),
            failure: OnceLock::new(),
        })
    }

    pub(crate) fn reconfigure(&self, direction: Direction) {
        *self.lock() = Some(direction);
        self.has_news.store(true, Ordering::Release);
    }

    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
        // It fails only when the counter is full, and then the thread is awake.
        let _ = self.wake.write(1);
    }

    fn news(&self) -> Option<Direction> {
        if self.has_news.swap(false, Ordering::Acquire) {
            self.lock().take()
        } else {
            None
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Direction>> {
        self.next_direction
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Everything one direction works with.
pub(crate) struct Forwarder {
    pub(crate) layer: Layer,
    pub(crate) input: Arc<Device>,
    pub(crate) output: Arc<Device>,
    pub(crate) input_capture: Option<Arc<CaptureFile>>,
    pub(crate) output_capture: Option<Arc<CaptureFile>>,
    pub(crate) engine: Engine,
    pub(crate) held: Held,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) control: Arc<Control>,
    pub(crate) realtime_offset_ns: u64,
}

impl Forwarder {
    /// Forwards until told to stop or until a device fails.
    pub(crate) fn run(mut self) {
        let thread_id = nix::unistd::gettid().as_raw().cast_unsigned();
        self.control
            .thread_id
            .store(thread_id.into(), Ordering::Release);
        // The default slack of 50 us would be added to every sleep.
        let _ = prctl::set_timerslack(1);
        // Without the privilege releases are only less punctual; the record shows by how much.
        let _ = precede_ordinary_threads(PRIORITY);
        if let Err(error) = self.forward() {
            let _ = self.control.failure.set(error.to_string());
        }
    }

    fn forward(&mut self) -> io::Result<()> {
        while !self.control.is_stopped.load(Ordering::Acquire) {
            let read = self.input.read(self.held.incoming())?;
            let now_ns = monotonic_ns();
            if let Some(length_bytes) = read {
                self.on_packet(length_bytes, now_ns);
            }
            let is_quiet = read.is_none();
            if !self.release_due(now_ns) && is_quiet {
                self.wait(now_ns)?;
            }
        }
        Ok(())
    }

    fn on_packet(&mut self, length_bytes: usize, now_ns: u64) {
        if let Some(direction) = self.control.news() {
            self.engine.reconfigure(direction, now_ns);
        }
        let read_ns = now_ns.wrapping_add(self.realtime_offset_ns);
        let packet = &mut self.held.incoming()[..length_bytes];
        let header = PacketHeader::parse(self.layer, packet);
        if header.is_some_and(|header| header.is_listener_report()) {
            // Kernels send them when they please: counted as packets, they would shift the indexes
            // that decisions depend on.
            self.ledger.on_listener_report();
            return;
        }
        if let Some(capture) = &self.input_capture {
            capture.write(read_ns, packet);
        }
        let mut decision = self.engine.decide(header.as_ref(), length_bytes, now_ns);
        if let Some(random) = decision.corruption {
            flip_bit(packet, header.as_ref(), random);
        }
        if decision.dropped.is_none() && self.held.is_full() {
            decision.dropped = Some(DropCause::Overflow);
        }
        let due_ns = match decision {
            Decision {
                dropped: None,
                due_ns,
                ..
            } => due_ns.wrapping_add(self.realtime_offset_ns),
            _ => 0,
        };
        let arrival = Arrival {
            read_ns,
            length_bytes,
            header,
        };
        let record = self.ledger.on_decided(&arrival, &decision, due_ns);
        if decision.dropped.is_none() {
            self.held.hold(
                length_bytes,
                decision.due_ns,
                record,
                decision.is_duplicated,
            );
        }
    }

    /// Writes all packets that are due; whether there was any.
    fn release_due(&mut self, mut now_ns: u64) -> bool {
        let mut has_released = false;
        while let Some(packet) = self.held.take_due(now_ns) {
            if has_released {
                now_ns = monotonic_ns();
            }
            has_released = true;
            let written_ns = now_ns.wrapping_add(self.realtime_offset_ns);
            let bytes = self.held.bytes(packet);
            // Before the write: the receiver's kernel has seen the packet when the write returns.
            if let Some(capture) = &self.output_capture {
                capture.write(written_ns, bytes);
            }
            let mut result = self.output.write(bytes);
            if packet.is_duplicated && result.is_ok() {
                if let Some(capture) = &self.output_capture {
                    capture.write(written_ns, bytes);
                }
                result = self.output.write(bytes);
            }
            let fate = match result {
                Ok(()) => Fate::Delivered,
                Err(_) => Fate::Refused,
            };
            self.ledger.on_written(packet.record, written_ns, fate);
            self.held.release(packet);
        }
        has_released
    }

    /// Sleeps until shortly before the next release, a packet or a call to stop.
    fn wait(&mut self, now_ns: u64) -> io::Result<()> {
        let timeout = match self.held.next_due_ns() {
            Some(due_ns) if due_ns <= now_ns + WATCH_NS => return Ok(()),
            Some(due_ns) => Some(timespec(due_ns - now_ns - WATCH_NS)),
            None => None,
        };
        let mut events = [
            PollFd::new(self.input.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.control.wake.as_fd(), PollFlags::POLLIN),
        ];
        match ppoll(&mut events, timeout, None) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// The lowest real-time priority: busy programs do not delay the packets.
pub(crate) const PRIORITY: i32 = 1;

/// Moves the calling thread to a real-time priority.
#[expect(unsafe_code, reason = "sched_setscheduler has no safe wrapper")]
pub(crate) fn precede_ordinary_threads(priority: i32) -> io::Result<()> {
    let parameters = libc::sched_param {
        sched_priority: priority,
    };
    // SAFETY: the kernel reads one structure, which outlives the call; zero is the calling thread.
    let status = unsafe { libc::sched_setscheduler(0, libc::SCHED_RR, &raw const parameters) };
    if status == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

fn timespec(nanoseconds: u64) -> TimeSpec {
    TimeSpec::from_duration(std::time::Duration::from_nanos(nanoseconds))
}

/// Flips one bit of the payload, or of the end of the header where there is none, so that a
/// checksum fails.
fn flip_bit(packet: &mut [u8], header: Option<&PacketHeader>, random: u64) {
    let payload_bytes = header.map_or(0, |header| header.payload_length as usize);
    let candidates = payload_bytes.clamp(1, packet.len().max(1));
    let position = packet
        .len()
        .saturating_sub(1 + random as usize % candidates);
    if let Some(byte) = packet.get_mut(position) {
        *byte ^= 1 << ((random >> 32) % 8);
    }
}
