//! Where what is in the directory of a store.

use std::cmp::Reverse;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use jiff::tz::Offset;

use crate::Error;

/// The layout that this file describes.
pub(crate) const VERSION: u32 = 2;
/// Segments have records of one hour.
pub(crate) const HOUR_S: i64 = 3600;

/// The directory of a store.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    root: PathBuf,
    /// Held while one segment takes the place of others, and by who must see all of them.
    exchange: Arc<Mutex<()>>,
}

/// What the name of a segment says.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SegmentName {
    /// The last whole second before its first record, in seconds since 1970: what ended with an
    /// hour is of that hour.
    pub(crate) begin_s: i64,
    /// Its records are those of this log,
    pub(crate) first: u64,
    /// of this one, and of all between; as far as they are of its hour.
    pub(crate) last: u64,
    /// Its records have been put together over intervals of so many seconds; 0: they are as they
    /// came.
    pub(crate) interval_s: u32,
}

/// A segment that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) name: SegmentName,
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
}

impl SegmentName {
    fn parse(text: &str) -> Option<Self> {
        let text = text.strip_suffix(".parquet")?;
        let (text, interval_s) = match text.strip_suffix('s') {
            Some(text) => {
                let (text, interval) = text.rsplit_once('-')?;
                (text, interval.parse().ok()?)
            }
            None => (text, 0),
        };
        let mut parts = text.rsplitn(3, '-');
        let last = parts.next()?.parse().ok()?;
        let first = parts.next()?.parse().ok()?;
        let begin_s = parts.next()?.parse().ok()?;
        (first <= last).then_some(Self {
            begin_s,
            first,
            last,
            interval_s,
        })
    }

    /// Its hour, since 1970.
    pub(crate) fn hour(&self) -> i64 {
        self.begin_s.div_euclid(HOUR_S)
    }

    /// Is this second, since 1970, of its hour?
    pub(crate) fn is_of_hour(&self, second: i64) -> bool {
        self.hour() == second.div_euclid(HOUR_S)
    }

    /// Has it all that the other has?
    pub(crate) fn covers(&self, other: &Self) -> bool {
        self.hour() == other.hour()
            && self.first <= other.first
            && other.last <= self.last
            && other.interval_s <= self.interval_s
    }

    /// Has it what was in this log?
    fn has_log(&self, log: u64) -> bool {
        (self.first..=self.last).contains(&log)
    }
}

/// Has one of these segments what was in this log and is of the hour that has this second?
pub(crate) fn have_log(segments: &[Found], second: i64, log: u64) -> bool {
    let mut names = segments.iter().map(|found| &found.name);
    names.any(|name| name.is_of_hour(second) && name.has_log(log))
}

impl Layout {
    pub(crate) fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            exchange: Arc::default(),
        }
    }

    /// While it is held, no segment takes the place of others.
    pub(crate) fn hold(&self) -> MutexGuard<'_, ()> {
        self.exchange.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn version(&self) -> PathBuf {
        self.root.join("version")
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.root.join("lock")
    }

    pub(crate) fn aside(&self) -> PathBuf {
        self.root.join("aside")
    }

    pub(crate) fn senders(&self) -> PathBuf {
        self.root.join("senders")
    }

    pub(crate) fn log_directory(&self) -> PathBuf {
        self.root.join("log")
    }

    pub(crate) fn log(&self, number: u64) -> PathBuf {
        self.log_directory().join(format!("{number:020}.log"))
    }

    /// Makes sure that it is a store which this fathom can read.
    ///
    /// # Errors
    /// [`Error::Newer`], [`Error::NoStore`], or [`Error::File`] when it cannot be read.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let path = self.version();
        let found = match fs::read_to_string(&path) {
            Ok(found) => found.trim().to_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.root.is_dir() => {
                return Err(Error::NoStore {
                    path: self.root.clone(),
                });
            }
            Err(error) => return Err(Error::file("read", path)(error)),
        };
        if found.parse().is_ok_and(|found: u32| found <= VERSION) {
            return Ok(());
        }
        Err(Error::Newer {
            path: self.root.clone(),
            found,
            known: VERSION,
        })
    }

    /// The logs, oldest first.
    ///
    /// # Errors
    /// [`Error::File`] when the directory cannot be read.
    pub(crate) fn logs(&self) -> Result<Vec<u64>, Error> {
        let number = |path: &PathBuf| {
            let stem = path.file_stem()?.to_str()?;
            (path.extension() == Some(OsStr::new("log"))).then(|| stem.parse().ok())?
        };
        let directory = self.log_directory();
        let mut logs: Vec<_> = list(&directory)?.iter().filter_map(number).collect();
        logs.sort_unstable();
        Ok(logs)
    }

    /// The names of the kinds of records, in their order.
    ///
    /// # Errors
    /// [`Error::File`] when the directory cannot be read.
    pub(crate) fn kinds(&self) -> Result<Vec<String>, Error> {
        let is_kind = |path: &PathBuf| {
            let name = path.file_name()?.to_str()?;
            (path.is_dir() && !matches!(name, "log" | "aside")).then(|| name.to_owned())
        };
        let mut kinds: Vec<_> = list(&self.root)?.iter().filter_map(is_kind).collect();
        kinds.sort_unstable();
        Ok(kinds)
    }

    /// All Parquet files of a kind; those that are no segments have no name.
    ///
    /// # Errors
    /// [`Error::File`] when a directory cannot be read.
    pub(crate) fn files(&self, kind: &str) -> Result<Vec<(Option<SegmentName>, PathBuf)>, Error> {
        let mut files = Vec::new();
        for day in list(&self.root.join(kind))? {
            if !day.is_dir() {
                files.push((None, day));
                continue;
            }
            for path in list(&day)? {
                let name = path.file_name().and_then(OsStr::to_str);
                files.push((name.and_then(SegmentName::parse), path));
            }
        }
        Ok(files)
    }

    /// The segments of a kind, oldest first, but for those whose records another one has, too:
    /// their writer ended before it could remove them.
    ///
    /// # Errors
    /// As [`Layout::files`].
    pub(crate) fn segments(&self, kind: &str) -> Result<Vec<Found>, Error> {
        let (found, _) = self.segments_and_covered(kind)?;
        Ok(found)
    }

    /// The same, and those whose records another one has.
    ///
    /// # Errors
    /// As [`Layout::files`].
    pub(crate) fn segments_and_covered(
        &self,
        kind: &str,
    ) -> Result<(Vec<Found>, Vec<Found>), Error> {
        let mut all = Vec::new();
        for (name, path) in self.files(kind)? {
            if let (Some(name), Ok(metadata)) = (name, fs::metadata(&path)) {
                let bytes = metadata.len();
                all.push(Found { name, path, bytes });
            }
        }
        // What covers one stands before it: of an hour the widest first.
        all.sort_by_key(|found| {
            let name = &found.name;
            let wide = (Reverse(name.last), Reverse(name.interval_s));
            (name.hour(), name.first, wide, name.begin_s)
        });
        let (mut kept, mut covered): (Vec<Found>, Vec<Found>) = (Vec::new(), Vec::new());
        for found in all {
            match kept.last() {
                Some(last) if last.name.covers(&found.name) => covered.push(found),
                _ => kept.push(found),
            }
        }
        Ok((kept, covered))
    }

    /// Where a segment is.
    pub(crate) fn segment(&self, kind: &str, name: &SegmentName) -> PathBuf {
        let begin = Timestamp::from_second(name.begin_s).unwrap_or_default();
        let day = Offset::UTC.to_datetime(begin).date();
        let SegmentName {
            begin_s,
            first,
            last,
            interval_s,
        } = name;
        let interval = match interval_s {
            0 => String::new(),
            seconds => format!("-{seconds}s"),
        };
        self.root
            .join(kind)
            .join(format!("day={day}"))
            .join(format!("{begin_s:010}-{first}-{last}{interval}.parquet"))
    }
}

/// What is in a directory; nothing if it is not there.
fn list(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(Error::file("read", directory))?,
    };
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    paths
        .collect::<Result<_, _>>()
        .map_err(Error::file("read", directory))
}

/// Makes a directory, and its parents, so that they outlive the host's next crash.
///
/// # Errors
/// [`Error::File`] when it cannot be made.
pub(crate) fn make_directory(path: &Path) -> Result<(), Error> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent().filter(|parent| *parent != Path::new("")) {
        make_directory(parent)?;
    }
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(Error::file("make the directory", path)(error));
        }
        _ => {}
    }
    sync_directory(path.parent().unwrap_or(path))
}

/// Names that were made or removed in a directory outlive the host's next crash.
///
/// # Errors
/// [`Error::File`] when it cannot be synced.
pub(crate) fn sync_directory(path: &Path) -> Result<(), Error> {
    let path = if path == Path::new("") {
        Path::new(".")
    } else {
        path
    };
    File::open(path)
        .and_then(|directory| directory.sync_all())
        .map_err(Error::file("sync the directory", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(begin_s: i64, first: u64, last: u64) -> SegmentName {
        SegmentName {
            begin_s,
            first,
            last,
            interval_s: 0,
        }
    }

    #[test]
    fn names_read_back() {
        let layout = Layout::new(Path::new("store"));
        let mut made = name(1_764_000_000, 7, 12);
        for (interval_s, called) in [
            (0, "1764000000-7-12.parquet"),
            (60, "1764000000-7-12-60s.parquet"),
        ] {
            made.interval_s = interval_s;
            let path = layout.segment("rtt", &made);
            let day = Path::new("store/rtt/day=2025-11-24");
            assert_eq!(path, day.join(called));
            assert_eq!(SegmentName::parse(called).as_ref(), Some(&made));
        }
        for foreign in [
            "x.parquet",
            "1-2.parquet",
            "1-3-2.parquet",
            "1-2-2.csv",
            "1-2-2-s.parquet",
            "2-2-60s.parquet",
        ] {
            assert_eq!(SegmentName::parse(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn what_another_segment_has_is_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout::new(directory.path());
        let (mut minutes, mut hours) = (name(4000, 4, 5), name(4000, 4, 5));
        (minutes.interval_s, hours.interval_s) = (60, 3600);
        for each in [
            name(60, 1, 1),
            name(60, 1, 3),
            name(70, 3, 3),
            name(80, 4, 4),
            // Of another hour, and so others of the same log.
            name(4000, 3, 3),
            name(4000, 4, 4),
            name(4010, 5, 5),
            minutes,
            hours.clone(),
        ] {
            let path = layout.segment("rtt", &each);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let (kept, covered) = layout.segments_and_covered("rtt").unwrap();
        let names = |found: Vec<Found>| found.into_iter().map(|it| it.name).collect::<Vec<_>>();
        let expected = [name(60, 1, 3), name(80, 4, 4), name(4000, 3, 3), hours];
        assert_eq!(names(kept), expected);
        assert_eq!(covered.len(), 5);
        assert_eq!(layout.kinds().unwrap(), ["rtt"]);
    }
}
