//! The one who writes.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use fathom_record::Time;
use nix::fcntl::Flock;

use crate::layout::{Found, Layout, make_directory};
use crate::log::Log;
use crate::recovery::{Recovered, begin, clear, lock, recover};
use crate::senders::Senders;
use crate::union::Types;
use crate::{Batch, Error, Sent, merge, segment};

/// How often it is seen whether segments should merge, or go.
const UPKEEP: Duration = Duration::from_secs(10);

/// What is done when the disk is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// The oldest segments go.
    RemoveOldest,
    /// Nothing is kept any more until there is room.
    Stop,
}

/// How a store is kept.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// A log becomes segments when it is this old,
    pub log_age: Duration,
    /// or when its records take so many bytes of memory. Twice as much is refused.
    pub log_bytes: usize,
    /// Segments that begin longer ago are removed.
    pub max_age: Option<Duration>,
    /// The oldest segments are removed when all take more bytes.
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
            max_bytes: None,
            full: Full::RemoveOldest,
        }
    }
}

/// What a writer has done.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// Records that were taken.
    pub rows: u64,
    /// Records that found no room.
    pub lost_rows: u64,
    /// Segments that were written.
    pub segments: u64,
    /// Segments that became part of larger ones.
    pub merged_segments: u64,
    /// Segments that were removed for their age, for their size, or for a full disk.
    pub removed_segments: u64,
}

/// Writes a store.
pub struct Writer {
    layout: Layout,
    settings: Settings,
    _lock: Flock<File>,
    log: Log,
    /// What the log has, by kind.
    open: BTreeMap<Arc<str>, Vec<RecordBatch>>,
    open_bytes: usize,
    senders: Senders,
    types: Types,
    opened: Instant,
    upkept: Instant,
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
        let writer = Self {
            layout,
            settings,
            _lock: lock,
            log,
            open: BTreeMap::new(),
            open_bytes: 0,
            senders,
            types: Types::default(),
            opened: Instant::now(),
            upkept: Instant::now(),
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
        let logged = self.log.append(&batch);
        self.take(batch);
        logged?;
        if self.open_bytes >= self.settings.log_bytes {
            self.close_log()?;
        }
        Ok(())
    }

    /// Takes records that were sent, unless they were taken before: `false`. Which were taken is as
    /// sure as the records are, so a sender may send again whatever was not acknowledged.
    ///
    /// # Errors
    /// When they cannot be written to the log, there is no room for more, or the store has other
    /// values in a column of that name ([`Error::Column`]). They are not taken then.
    pub fn append_sent(&mut self, sent: Sent) -> Result<bool, Error> {
        if self.senders.has_taken(&sent.number) {
            return Ok(false);
        }
        self.accepts(&sent.batch)?;
        self.make_way(&sent.batch)?;
        self.log.append_frame(&sent.bytes)?;
        self.senders.take(&sent.number);
        self.take(sent.batch);
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
        let bytes = self.open_bytes + batch.rows.get_array_memory_size();
        if bytes > 2 * self.settings.log_bytes && !self.open.is_empty() {
            return self.close_log();
        }
        Ok(())
    }

    fn take(&mut self, batch: Batch) {
        self.open_bytes += batch.rows.get_array_memory_size();
        self.status.rows += batch.rows.num_rows() as u64;
        self.open.entry(batch.kind).or_default().push(batch.rows);
    }

    /// All that was taken is on the disk.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be written.
    pub fn sync(&mut self) -> Result<(), Error> {
        self.log.sync()
    }

    /// Does what is due: an old log, or a full one, becomes segments, segments merge, and old ones
    /// go.
    ///
    /// # Errors
    /// When something cannot be read or written. It is tried again the next time.
    pub fn tick(&mut self, now: Time) -> Result<(), Error> {
        let is_full = self.open_bytes >= self.settings.log_bytes;
        if is_full || self.opened.elapsed() >= self.settings.log_age {
            self.close_log()?;
        }
        if self.upkept.elapsed() >= UPKEEP {
            self.upkept = Instant::now();
            self.retain(now)?;
            self.merge_due(now)?;
        }
        Ok(())
    }

    /// Makes segments of all that was taken.
    ///
    /// # Errors
    /// As [`Writer::tick`].
    pub fn finish(mut self) -> Result<Status, Error> {
        self.close_log()?;
        Ok(self.status)
    }

    /// What was done so far.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Each kind of which the log has records gets a segment, and a new log begins.
    fn close_log(&mut self) -> Result<(), Error> {
        self.opened = Instant::now();
        if self.open.is_empty() && self.log.is_empty() {
            return Ok(());
        }
        if self.senders.have_changed() {
            // Only of what is in the log for sure.
            self.log.sync()?;
            self.senders.write(&self.layout)?;
        }
        while let Some((kind, batches)) = self.open.first_key_value() {
            let (kind, number) = (kind.clone(), self.log.number);
            match segment::write(&self.layout, &kind, number, batches) {
                Ok(_) => {
                    self.status.segments += 1;
                    let written = self.open.remove(&kind).unwrap_or_default();
                    let bytes = written.iter().map(RecordBatch::get_array_memory_size);
                    self.open_bytes -= bytes.sum::<usize>();
                }
                Err(error) if error.is_full_disk() && self.make_room()? => {}
                Err(error) => return Err(error),
            }
        }
        let next = Log::create(&self.layout, self.log.number + 1)?;
        std::mem::replace(&mut self.log, next).remove()
    }

    /// Removes the oldest segment, if that is what is wanted. `false`: there is none.
    fn make_room(&mut self) -> Result<bool, Error> {
        if self.settings.full == Full::Stop {
            return Ok(false);
        }
        match self.all()?.first() {
            Some(oldest) => self.remove(oldest).map(|()| true),
            None => Ok(false),
        }
    }

    /// All segments, oldest first.
    fn all(&self) -> Result<Vec<Found>, Error> {
        let mut all = Vec::new();
        for kind in self.layout.kinds()? {
            all.extend(self.layout.segments(&kind)?);
        }
        all.sort_by_key(|found| found.name.begin_s);
        Ok(all)
    }

    fn remove(&mut self, found: &Found) -> Result<(), Error> {
        fs::remove_file(&found.path).map_err(Error::file("remove", &found.path))?;
        self.status.removed_segments += 1;
        if let Some(day) = found.path.parent() {
            // Fails where there are others.
            let _ = fs::remove_dir(day);
        }
        Ok(())
    }

    /// Removes what is too old or too much. [`Writer::tick`] does it now and then.
    ///
    /// # Errors
    /// As [`Writer::tick`].
    pub fn retain(&mut self, now: Time) -> Result<(), Error> {
        let Settings {
            max_age, max_bytes, ..
        } = self.settings;
        if max_age.is_none() && max_bytes.is_none() {
            return Ok(());
        }
        let all = self.all()?;
        let mut bytes: u64 = all.iter().map(|found| found.bytes).sum();
        for found in &all {
            let age_s = seconds(now).saturating_sub(found.name.begin_s);
            let age_s = u64::try_from(age_s).unwrap_or_default();
            let is_old = max_age.is_some_and(|most| age_s > most.as_secs());
            if is_old || max_bytes.is_some_and(|most| bytes > most) {
                self.remove(found)?;
                bytes -= found.bytes;
            }
        }
        Ok(())
    }

    /// Merges small segments in a row, one run of each kind. [`Writer::tick`] does it now and then.
    ///
    /// # Errors
    /// As [`Writer::tick`].
    pub fn merge_due(&mut self, now: Time) -> Result<(), Error> {
        for kind in self.layout.kinds()? {
            let segments = self.layout.segments(&kind)?;
            let due = merge::due(&segments, seconds(now));
            if let Some(run) = due
                && merge::merge(&self.layout, &kind, run)?
            {
                self.status.merged_segments += run.len() as u64;
            }
        }
        Ok(())
    }
}

/// Since 1970.
fn seconds(time: Time) -> i64 {
    i64::try_from(time.0 / 1_000_000_000).unwrap_or(i64::MAX)
}
