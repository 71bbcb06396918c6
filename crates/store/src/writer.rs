//! The one who writes.

mod age_clock;
mod beside;
mod closing;
mod recovery;
mod upkeep;

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use fathom_record::Time;
use nix::fcntl::Flock;

use crate::layout::{Layout, make_directory};
use crate::log::Log;
use crate::senders::Senders;
use crate::types::Types;
use crate::{Batch, Error, Sent};
use age_clock::AgeClock;
use beside::Beside;
use closing::Closing;
pub use recovery::Recovered;
use recovery::{begin, clear, lock, recover, say_version};

/// How often it is seen whether segments should merge, or go.
const UPKEEP: Duration = Duration::from_secs(10);

/// What is done when the disk is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// Segments go, as they do when the store is too large.
    RemoveOldest,
    /// Nothing is kept any more until there is room.
    Stop,
}

/// How a store is kept.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// A log becomes segments when it is this old,
    pub log_age: Duration,
    /// or when it takes so many bytes. Twice as much is refused.
    pub log_bytes: u64,
    /// Segments that begin longer ago are removed.
    pub max_age: Option<Duration>,
    /// Records of intervals become one a minute when they are so old,
    pub minutes_after: Option<Duration>,
    /// and one an hour.
    pub hours_after: Option<Duration>,
    /// The oldest segments are removed when all take more bytes, first those with records as they
    /// came, then those with one a minute.
    pub max_bytes: Option<u64>,
    /// What is done when the disk is full.
    pub full: Full,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            log_age: Duration::from_secs(60),
            log_bytes: 16 << 20,
            max_age: None,
            minutes_after: None,
            hours_after: None,
            max_bytes: None,
            full: Full::RemoveOldest,
        }
    }
}

/// What a writer has done.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// Records that were taken, and are not lost.
    pub rows: u64,
    /// Records that found no room, or that the disk does not give back.
    pub lost_rows: u64,
    /// Segments that were written.
    pub segments: u64,
    /// Segments that became part of larger ones.
    pub merged_segments: u64,
    /// Segments whose records were put together over longer intervals.
    pub rolled_up_segments: u64,
    /// Segments that were removed for their age, for their size, or for a full disk.
    pub removed_segments: u64,
}

/// Writes a store.
pub struct Writer {
    // Ends before the lock is gone.
    upkeep: Beside,
    layout: Layout,
    settings: Settings,
    _lock: Flock<File>,
    log: Log,
    /// The one before, until its segments are there: nothing is added to it.
    closed: Option<Log>,
    senders: Senders,
    types: Types,
    opened: Instant,
    upkept: Instant,
    clock: AgeClock,
    status: Status,
}

impl Writer {
    /// Opens the store in a directory, or begins one where there is nothing. What a writer before
    /// left in its log becomes segments.
    ///
    /// # Errors
    /// [`Error::Taken`] while another process writes, [`Error::NoStore`], [`Error::Newer`], or
    /// another when the directory cannot be read or written.
    pub fn open(directory: &Path, settings: Settings) -> Result<(Self, Recovered), Error> {
        let layout = Layout::new(directory);
        begin(&layout)?;
        let lock = lock(&layout)?;
        say_version(&layout)?;
        make_directory(&layout.log_directory())?;
        let mut recovered = Recovered::default();
        let mut next = 1;
        for kind in layout.kinds()? {
            clear(&layout, &kind, &mut recovered)?;
            let last = layout.segments(&kind)?.iter().map(|it| it.name.last).max();
            next = next.max(last.unwrap_or_default() + 1);
        }
        let mut status = Status::default();
        let mut senders = Senders::read(&layout)?;
        for number in layout.logs()? {
            match recover(&layout, number, &mut senders, &mut recovered) {
                Ok(segments) => status.segments += segments,
                Err(error) if error.is_full_disk() => recovered.waiting_logs += 1,
                Err(error) => return Err(error),
            }
            next = next.max(number + 1);
        }
        let log = Log::create(&layout, next)?;
        let last_kept = upkeep::last_kept(&layout)?;
        let writer = Self {
            upkeep: Beside::new(layout.clone(), settings),
            layout,
            settings,
            _lock: lock,
            log,
            closed: None,
            senders,
            types: Types::default(),
            opened: Instant::now(),
            upkept: Instant::now(),
            clock: AgeClock::new(last_kept, Instant::now()),
            status,
        };
        Ok((writer, recovered))
    }

    /// Takes records. They are kept for sure once [`Writer::sync`] has returned.
    ///
    /// # Errors
    /// When they cannot be written to the log, or not be made a segment. They stay in memory then,
    /// and become a segment when there is room. What finds no room there, too, is lost, and counted
    /// in [`Status::lost_rows`].
    pub fn append(&mut self, batch: Batch) -> Result<(), Error> {
        let rows = batch.rows.num_rows() as u64;
        self.make_way(&batch)
            .inspect_err(|_| self.status.lost_rows += rows)?;
        self.status.rows += rows;
        self.log.append(batch)?;
        self.close_if_full(Instant::now())
    }

    /// Takes records that were sent, unless they were taken before: `false`. Which were taken is as
    /// sure as the records are, so a sender may send again whatever was not acknowledged.
    ///
    /// # Errors
    /// When they cannot be written to the log, there is no room for more, or the store has other
    /// values in a column of that name ([`Error::Column`]). They are not taken then.
    pub fn append_sent(&mut self, sent: &Sent) -> Result<bool, Error> {
        if self.senders.has_taken(&sent.number) {
            return Ok(false);
        }
        self.accepts(&sent.batch)?;
        self.make_way(&sent.batch)?;
        self.log.append_frame(&sent.bytes, &sent.batch)?;
        self.senders.take(&sent.number);
        self.status.rows += sent.batch.rows.num_rows() as u64;
        Ok(true)
    }

    /// Can the store have these columns beside what it has of the kind?
    ///
    /// # Errors
    /// [`Error::Column`] if not; others when the store cannot be read.
    pub fn accepts(&mut self, batch: &Batch) -> Result<(), Error> {
        self.types.check(&self.layout, batch)
    }

    /// Makes segments of what was taken, if with this batch there were too much.
    fn make_way(&mut self, batch: &Batch) -> Result<(), Error> {
        let bytes = self.open_bytes();
        let with = bytes + batch.memory_bytes() as u64;
        if bytes > 0 && with > 2 * self.settings.log_bytes {
            return self.close_log(Instant::now());
        }
        Ok(())
    }

    /// What no segment has yet.
    fn open_bytes(&self) -> u64 {
        self.log.bytes() + self.closed.as_ref().map_or(0, Log::bytes)
    }

    fn close_if_full(&mut self, at: Instant) -> Result<(), Error> {
        if self.open_bytes() >= self.settings.log_bytes {
            return self.close_log(at);
        }
        Ok(())
    }

    /// All that was taken is on the disk.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be written.
    pub fn sync(&mut self) -> Result<(), Error> {
        self.log.sync()
    }

    /// Does what is due: an old log, or a full one, becomes segments. Segments merge, and old ones
    /// go, on a thread that this begins and does not wait for. Where the wall clock, which says it
    /// is `now`, has jumped forward, segments are as old as before for an hour.
    ///
    /// # Errors
    /// When something cannot be read or written, or could not be by the thread of the last time. It
    /// is tried again the next time.
    pub fn tick(&mut self, now: Time) -> Result<(), Error> {
        self.tick_at(now, Instant::now())
    }

    /// The same, at a moment that need not be this one.
    ///
    /// # Errors
    /// As [`Writer::tick`].
    pub fn tick_at(&mut self, now: Time, at: Instant) -> Result<(), Error> {
        if at.saturating_duration_since(self.opened) >= self.settings.log_age {
            self.close_log(at)?;
        }
        self.close_if_full(at)?;
        if at.saturating_duration_since(self.upkept) >= UPKEEP {
            self.upkept = at;
            let now = self.clock.read(now, at);
            self.upkeep.begin(now)?;
        }
        Ok(())
    }

    /// Waits until the thread that [`Writer::tick`] has begun is done.
    ///
    /// # Errors
    /// What came of it.
    pub fn settle(&mut self) -> Result<(), Error> {
        self.upkeep.wait()
    }

    /// Removes what is too old or too much. [`Writer::tick`] does it now and then.
    ///
    /// # Errors
    /// As [`Writer::tick`].
    pub fn retain(&mut self, now: Time) -> Result<(), Error> {
        self.upkeep.settled()?.retain(now)
    }

    /// Merges small segments in a row, one run of each kind. [`Writer::tick`] does it now and then.
    ///
    /// # Errors
    /// As [`Writer::tick`].
    pub fn merge_due(&mut self, now: Time) -> Result<(), Error> {
        self.upkeep.settled()?.merge_due(now)
    }

    /// Makes records of longer intervals of those of an hour that is old enough, one of each kind.
    /// [`Writer::tick`] does it now and then.
    ///
    /// # Errors
    /// As [`Writer::tick`].
    pub fn roll_up_due(&mut self, now: Time) -> Result<(), Error> {
        self.upkeep.settled()?.roll_up_due(now)
    }

    /// Makes segments of all that was taken. Segments that are about to merge stay as they are.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn finish(mut self) -> Result<Status, Error> {
        // What could not be done with segments is tried again by the next writer.
        let _ = self.upkeep.stop();
        self.close_log(Instant::now())?;
        Ok(self.status())
    }

    /// What was done so far.
    pub fn status(&self) -> Status {
        let of_segments = self.upkeep.status();
        Status {
            merged_segments: of_segments.merged_segments,
            rolled_up_segments: of_segments.rolled_up_segments,
            removed_segments: of_segments.removed_segments,
            ..self.status
        }
    }

    /// A new log begins, and each kind of which the one before has records gets a segment. What
    /// finds no room stays, and is tried again the next time.
    fn close_log(&mut self, at: Instant) -> Result<(), Error> {
        self.opened = at;
        self.write_closed()?;
        if self.log.is_empty() {
            return Ok(());
        }
        if self.senders.have_changed() {
            // Only of what is in the log for sure.
            self.log.sync()?;
            self.senders.write(&self.layout)?;
        }
        // Names of segments say which logs they have whole: nothing is added to this one any more.
        let next = Log::create(&self.layout, self.log.number + 1)?;
        self.closed = Some(std::mem::replace(&mut self.log, next));
        self.write_closed()
    }

    fn write_closed(&mut self) -> Result<(), Error> {
        let Some(mut log) = self.closed.take() else {
            return Ok(());
        };
        for kind in log.kinds() {
            if let Err(error) = self.write_kind(&kind, &log) {
                self.closed = Some(log);
                return Err(error);
            }
            log.forget(&kind);
        }
        log.remove()
    }

    /// Removes the segment that goes first, if that is what is wanted. `false`: there is none.
    fn make_room(&mut self) -> Result<bool, Error> {
        if self.settings.full == Full::Stop {
            return Ok(false);
        }
        // Where the disk is full, it fails, too.
        let _ = self.upkeep.stop();
        self.upkeep.settled()?.make_room()
    }

    fn write_kind(&mut self, kind: &str, log: &Log) -> Result<(), Error> {
        loop {
            let mut closing = Closing::default();
            let written = closing.write(&self.layout, kind, log);
            self.status.segments += closing.segments;
            match written {
                Err(error) if error.is_full_disk() && self.make_room()? => {}
                Err(error) => return Err(error),
                Ok(()) => {
                    self.status.rows -= closing.lost_rows;
                    self.status.lost_rows += closing.lost_rows;
                    return Ok(());
                }
            }
        }
    }
}
