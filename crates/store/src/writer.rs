//! The one who writes.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use fathom_record::Time;
use nix::fcntl::{Flock, FlockArg};

use crate::layout::{Found, Layout, VERSION, make_directory, sync_directory};
use crate::log::{Log, replay};
use crate::{Batch, Error, merge, segment};

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

/// What was found when a store was opened.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Records of a log whose writer ended before they were in a segment.
    pub rows: u64,
    /// At the end of that log, the beginning of a record that was being written.
    pub cut_off_bytes: u64,
    /// On a full disk, logs stay as they are: their records can be read, and become segments when a
    /// writer finds room.
    pub waiting_logs: u64,
    /// Files that cannot be read, or are none of a store's. They are in the directory `aside` now.
    pub aside: Vec<PathBuf>,
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
        for number in layout.logs()? {
            match recover(&layout, number, &mut recovered) {
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
        let bytes = batch.rows.get_array_memory_size();
        let rows = batch.rows.num_rows() as u64;
        let most = 2 * self.settings.log_bytes;
        if self.open_bytes + bytes > most && !self.open.is_empty() {
            self.close_log()
                .inspect_err(|_| self.status.lost_rows += rows)?;
        }
        let logged = self.log.append(&batch);
        self.open_bytes += bytes;
        self.status.rows += rows;
        self.open.entry(batch.kind).or_default().push(batch.rows);
        logged?;
        if self.open_bytes >= self.settings.log_bytes {
            self.close_log()?;
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

    /// Does what is due by the clock: an old log becomes segments, segments merge, and old ones go.
    ///
    /// # Errors
    /// When something cannot be read or written. It is tried again the next time.
    pub fn tick(&mut self, now: Time) -> Result<(), Error> {
        if self.opened.elapsed() >= self.settings.log_age {
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

/// Makes the directory a store.
fn begin(layout: &Layout) -> Result<(), Error> {
    make_directory(layout.root())?;
    match layout.check() {
        Err(Error::NoStore { .. }) => {}
        checked => return checked,
    }
    let root = layout.root();
    let mut entries = fs::read_dir(root).map_err(Error::file("read", root))?;
    if entries.any(|entry| !entry.is_ok_and(|entry| entry.path() == layout.lock())) {
        return layout.check();
    }
    let path = layout.version();
    fs::write(&path, format!("{VERSION}\n")).map_err(Error::file("write", &path))?;
    sync_directory(root)
}

fn lock(layout: &Layout) -> Result<Flock<File>, Error> {
    let path = layout.lock();
    let mut open = OpenOptions::new();
    let file = open.read(true).write(true).create(true).truncate(false);
    let file = file.open(&path).map_err(Error::file("open", &path))?;
    let Ok(mut lock) = Flock::lock(file, FlockArg::LockExclusiveNonblock) else {
        let pid = fs::read_to_string(&path).unwrap_or_default();
        return Err(Error::Taken {
            path: layout.root().to_owned(),
            pid: pid.trim().to_owned(),
        });
    };
    let written = lock
        .set_len(0)
        .and_then(|()| writeln!(lock, "{}", std::process::id()));
    written.map_err(Error::file("write", &path))?;
    Ok(lock)
}

/// Removes what is left of a writer that ended: parts, and what a larger segment has. Puts aside
/// what cannot be read.
fn clear(layout: &Layout, kind: &str, recovered: &mut Recovered) -> Result<(), Error> {
    let (_, covered) = layout.segments_and_covered(kind)?;
    let covered = covered.into_iter().map(|found| found.path);
    let files = layout.files(kind)?;
    let parts = files.iter().map(|(_, path)| path.clone());
    let parts = parts.filter(|path| segment::is_part(path));
    for path in covered.chain(parts) {
        fs::remove_file(&path).map_err(Error::file("remove", &path))?;
    }
    for (name, path) in files {
        if path.exists() && (name.is_none() || !segment::is_whole(&path)) {
            put_aside(layout, &path, recovered)?;
        }
    }
    Ok(())
}

fn put_aside(layout: &Layout, path: &Path, recovered: &mut Recovered) -> Result<(), Error> {
    make_directory(&layout.aside())?;
    let within = path.strip_prefix(layout.root()).unwrap_or(path);
    let to = layout
        .aside()
        .join(within.to_string_lossy().replace('/', "_"));
    fs::rename(path, &to).map_err(Error::file("put aside", path))?;
    recovered.aside.push(to);
    Ok(())
}

/// Makes segments of a log, but for the kinds that have theirs. Returns how many.
fn recover(layout: &Layout, number: u64, recovered: &mut Recovered) -> Result<u64, Error> {
    let path = layout.log(number);
    let replayed = replay(&path)?;
    recovered.cut_off_bytes += replayed.cut_off_bytes;
    let mut kinds: BTreeMap<Arc<str>, Vec<RecordBatch>> = BTreeMap::new();
    for batch in replayed.batches {
        kinds.entry(batch.kind).or_default().push(batch.rows);
    }
    let mut segments = 0;
    for (kind, batches) in kinds {
        let there = layout.segments(&kind)?;
        if !there.iter().any(|found| found.name.has_log(number)) {
            segment::write(layout, &kind, number, &batches)?;
            segments += 1;
            let rows = batches.iter().map(RecordBatch::num_rows).sum::<usize>();
            recovered.rows += rows as u64;
        }
    }
    if replayed.damaged_bytes > 0 {
        put_aside(layout, &path, recovered)?;
    } else {
        fs::remove_file(&path).map_err(Error::file("remove", &path))?;
    }
    Ok(segments)
}
