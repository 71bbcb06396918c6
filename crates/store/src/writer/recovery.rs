//! What is done when a store is opened: it becomes one, others are kept out, and what a writer left
//! that ended is put in order.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

use crate::layout::{Layout, VERSION, make_directory, sync_directory};
use crate::log::Log;
use crate::senders::Senders;
use crate::{Error, segment};

use super::closing::Closing;

/// What was found when a store was opened.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Records of a log whose writer ended before they were in a segment.
    pub rows: u64,
    /// Records of that log which the disk gave back at first, and then no more.
    pub lost_rows: u64,
    /// At the end of that log, the beginning of a record that was being written.
    pub cut_off_bytes: u64,
    /// On a full disk, logs stay as they are: their records can be read, and become segments when a
    /// writer finds room.
    pub waiting_logs: u64,
    /// Files that cannot be read, or are none of a store's. They are in the directory `aside` now.
    pub aside: Vec<PathBuf>,
}

impl Recovered {
    /// What people are to be told, a line each.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.rows > 0 {
            lines.push(format!(
                "{} records of the process before were in its log, and are in segments now",
                self.rows
            ));
        }
        if self.lost_rows > 0 {
            lines.push(format!(
                "{} records of the log are lost: the disk did not give them back as it had before",
                self.lost_rows
            ));
        }
        if self.cut_off_bytes > 0 {
            lines.push(format!(
                "the last {} bytes of the log are left out: they were being written when it ended",
                self.cut_off_bytes
            ));
        }
        if self.waiting_logs > 0 {
            lines.push(format!(
                "the disk is full: {} logs of processes before are left as they are",
                self.waiting_logs
            ));
        }
        let aside = self.aside.iter().map(|path| {
            let path = path.display();
            format!("a file that cannot be read, or is none of the store's, is now {path}")
        });
        lines.extend(aside);
        lines
    }
}

/// Makes the directory a store.
pub(super) fn begin(layout: &Layout) -> Result<(), Error> {
    make_directory(layout.root())?;
    let root = layout.root();
    match layout.check() {
        Err(Error::NoStore { .. }) => {
            let mut entries = fs::read_dir(root).map_err(Error::file("read", root))?;
            let own = [layout.lock(), part_of(&layout.version())];
            if entries.any(|entry| !entry.is_ok_and(|entry| own.contains(&entry.path()))) {
                return layout.check();
            }
            say_version(layout)
        }
        checked => checked,
    }
}

/// Says what is in the directory from now on: an older fathom does not touch it.
pub(super) fn say_version(layout: &Layout) -> Result<(), Error> {
    let path = layout.version();
    let part = part_of(&path);
    fs::write(&part, format!("{VERSION}\n")).map_err(Error::file("write", &part))?;
    fs::rename(&part, &path).map_err(Error::file("rename", &part))?;
    sync_directory(layout.root())
}

fn part_of(path: &Path) -> PathBuf {
    path.with_extension("part")
}

/// Keeps other writers out.
pub(super) fn lock(layout: &Layout) -> Result<Flock<File>, Error> {
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
pub(super) fn clear(layout: &Layout, kind: &str, recovered: &mut Recovered) -> Result<(), Error> {
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

/// Makes segments of a log, but for the kinds and hours that have theirs. Returns how many.
pub(super) fn recover(
    layout: &Layout,
    number: u64,
    senders: &mut Senders,
    recovered: &mut Recovered,
) -> Result<u64, Error> {
    let (log, replayed) = Log::open(layout, number)?;
    senders.take_all(&replayed.numbers);
    recovered.cut_off_bytes += replayed.cut_off_bytes;
    let closing = close(layout, &log, recovered)?;
    senders.write(layout)?;
    if replayed.damaged_bytes + closing.lost_rows > 0 {
        put_aside(layout, &layout.log(number), recovered)?;
    } else {
        log.remove()?;
    }
    Ok(closing.segments)
}

/// Reads the records of a log again, so that few are in memory at a time: segments are made of
/// them.
fn close(layout: &Layout, log: &Log, recovered: &mut Recovered) -> Result<Closing, Error> {
    let mut closing = Closing::default();
    let mut kinds = log.kinds().into_iter();
    let written = kinds.try_for_each(|kind| closing.write(layout, &kind, log));
    recovered.rows += closing.rows;
    recovered.lost_rows += closing.lost_rows;
    written.map(|()| closing)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use fathom_record::{Count, Time};

    use super::*;
    use crate::Batches;

    #[test]
    fn what_changed_since_it_was_read_first_is_counted_and_told() {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout::new(directory.path());
        begin(&layout).unwrap();
        make_directory(&layout.log_directory()).unwrap();
        let mut left = Log::create(&layout, 1).unwrap();
        let mut batches = Batches::new("here");
        for rows in [3, 4] {
            for _ in 0..rows {
                batches.put(&Count::new(Time::now(), "rtt", "frames", 1));
            }
            for batch in batches.take() {
                left.append(batch).unwrap();
            }
        }
        let (log, _) = Log::open(&layout, 1).unwrap();
        let file = OpenOptions::new().write(true).open(layout.log(1)).unwrap();
        file.write_all_at(b"\x55", left.bytes() - 9).unwrap();

        let mut recovered = Recovered::default();
        let closing = close(&layout, &log, &mut recovered).unwrap();
        assert_eq!(closing.lost_rows, 4);
        assert_eq!((recovered.rows, recovered.lost_rows), (3, 4));
        let told = recovered.lines().join("\n");
        assert!(told.contains("4 records of the log are lost"), "{told}");
    }
}
