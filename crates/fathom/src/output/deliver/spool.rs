//! Batches on the disk that no receiver has acknowledged. They outlive the process.
//!
//! ```text
//! DIR/00000000000000000007.spool   batches as they are sent, one after the other
//! DIR/lock                         the process whose spool it is
//! ```

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use fathom_store::{Number, Whole, whole};
use nix::fcntl::{Flock, FlockArg};

/// A file that has so much is not added to: it goes when all of it is acknowledged.
const FILE_BYTES: u64 = 4 << 20;

/// A directory of such files.
pub(super) struct Spool {
    directory: PathBuf,
    _lock: Flock<File>,
    most_bytes: u64,
    /// Oldest first.
    files: VecDeque<SpoolFile>,
    bytes: u64,
    /// The last of the files.
    writing: Option<File>,
    is_synced: bool,
    /// What failed the last time.
    trouble: Option<String>,
    news: Vec<String>,
}

struct SpoolFile {
    number: u64,
    bytes: u64,
    /// Acknowledged.
    released: u64,
}

impl Spool {
    /// Opens a spool, and finds what a process before has left.
    ///
    /// # Errors
    /// When the directory cannot be used, or another process uses it.
    pub(super) fn open(directory: &Path, most_bytes: u64) -> anyhow::Result<Self> {
        let context = || format!("cannot use {}", directory.display());
        fs::create_dir_all(directory).with_context(context)?;
        let lock = lock(directory)?;
        let mut files = Vec::new();
        for entry in fs::read_dir(directory).with_context(context)? {
            let path = entry.with_context(context)?.path();
            let stem = path
                .file_stem()
                .and_then(|stem| stem.to_str()?.parse().ok());
            if path.extension().is_some_and(|it| it == "spool")
                && let Some(number) = stem
            {
                files.push(SpoolFile {
                    number,
                    bytes: fs::metadata(&path).with_context(context)?.len(),
                    released: 0,
                });
            }
        }
        files.sort_unstable_by_key(|file| file.number);
        let bytes: u64 = files.iter().map(|file| file.bytes).sum();
        let mut news = Vec::new();
        if bytes > 0 {
            news.push(format!(
                "{} KiB of records of the process before are sent first: {}",
                bytes.div_ceil(1024),
                directory.display()
            ));
        }
        Ok(Self {
            directory: directory.to_owned(),
            _lock: lock,
            most_bytes,
            files: files.into(),
            bytes,
            writing: None,
            is_synced: true,
            trouble: None,
            news,
        })
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Adds a batch. `false`: there is no room, or it cannot be written, which is told once.
    pub(super) fn append(&mut self, batch: &[u8]) -> bool {
        if self.bytes + batch.len() as u64 > self.most_bytes {
            return false;
        }
        match self.try_append(batch) {
            Ok(()) => {
                self.trouble = None;
                true
            }
            Err(error) => {
                self.tell("write to", &error);
                false
            }
        }
    }

    fn try_append(&mut self, batch: &[u8]) -> io::Result<()> {
        let is_full = self
            .files
            .back()
            .is_some_and(|file| file.bytes >= FILE_BYTES);
        if is_full && let Some(file) = self.writing.take() {
            file.sync_data()?;
        }
        if self.writing.is_none() {
            let number = self.files.back().map_or(1, |file| file.number + 1);
            let mut open = OpenOptions::new();
            let file = open.append(true).create_new(true).open(self.path(number))?;
            File::open(&self.directory)?.sync_all()?;
            self.writing = Some(file);
            self.files.push_back(SpoolFile {
                number,
                bytes: 0,
                released: 0,
            });
        }
        let (Some(writing), Some(file)) = (&mut self.writing, self.files.back_mut()) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        self.is_synced = false;
        if let Err(error) = writing.write_all(batch) {
            // What follows a part of a batch could not be read.
            writing.set_len(file.bytes)?;
            return Err(error);
        }
        file.bytes += batch.len() as u64;
        self.bytes += batch.len() as u64;
        Ok(())
    }

    /// What was appended outlives a crash of the host.
    pub(super) fn sync(&mut self) {
        if self.is_synced {
            return;
        }
        self.is_synced = true;
        if let Some(file) = &self.writing
            && let Err(error) = file.sync_data()
        {
            self.tell("sync", &error);
        }
    }

    /// The batches that have waited longest, about so many bytes. What cannot be read is left out,
    /// and told.
    pub(super) fn first(&mut self, most_bytes: usize) -> Option<(Vec<u8>, Vec<Number>)> {
        loop {
            let file = self.files.front()?;
            let left = file.bytes - file.released;
            let bytes = match read(&self.path(file.number), file.released, most_bytes, left) {
                Ok(bytes) => bytes,
                Err(error) => {
                    self.tell("read", &error);
                    self.forget_first();
                    continue;
                }
            };
            let (length, numbers, end) = whole_batches(&bytes, most_bytes);
            if length > 0 {
                let mut bytes = bytes;
                bytes.truncate(length);
                return Some((bytes, numbers));
            }
            let rest = bytes.len();
            match end {
                Whole::CutOff if left > 0 => self.news.push(format!(
                    "the last {rest} bytes of a file of the spool are left out: they were being written when its process ended"
                )),
                Whole::Damaged => self.news.push(format!(
                    "{left} bytes of the spool are damaged, and lost"
                )),
                _ => {}
            }
            self.forget_first();
        }
    }

    /// So many bytes of the first file are acknowledged.
    pub(super) fn release(&mut self, bytes: usize) {
        let Some(file) = self.files.front_mut() else {
            return;
        };
        file.released += bytes as u64;
        if file.released >= file.bytes {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        let Some(file) = self.files.pop_front() else {
            return;
        };
        if self.files.is_empty() {
            self.writing = None;
        }
        self.bytes -= file.bytes;
        if let Err(error) = fs::remove_file(self.path(file.number)) {
            self.tell("remove a file of", &error);
        }
    }

    fn path(&self, number: u64) -> PathBuf {
        self.directory.join(format!("{number:020}.spool"))
    }

    /// Says once what fails.
    fn tell(&mut self, attempt: &str, error: &io::Error) {
        let directory = self.directory.display();
        let trouble = format!("cannot {attempt} the spool {directory}: {error}");
        if self.trouble.as_ref() != Some(&trouble) {
            self.news.push(trouble.clone());
            self.trouble = Some(trouble);
        }
    }

    /// What is to be said, once.
    pub(super) fn take_news(&mut self) -> Vec<String> {
        std::mem::take(&mut self.news)
    }
}

fn lock(directory: &Path) -> anyhow::Result<Flock<File>> {
    let path = directory.join("lock");
    let mut open = OpenOptions::new();
    let file = open.read(true).write(true).create(true).truncate(false);
    let file = file.open(&path);
    let file = file.with_context(|| format!("cannot open {}", path.display()))?;
    let Ok(mut lock) = Flock::lock(file, FlockArg::LockExclusiveNonblock) else {
        let pid = fs::read_to_string(&path).unwrap_or_default();
        return Err(anyhow!(
            "{} is used by process {}: give this one another with --spool",
            directory.display(),
            pid.trim()
        ));
    };
    lock.set_len(0)
        .and_then(|()| writeln!(lock, "{}", std::process::id()))
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(lock)
}

/// So many bytes, or more where the first batch has more.
fn read(path: &Path, from: u64, most_bytes: usize, left: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    let first = left.min(most_bytes as u64);
    (&file).take(first).read_to_end(&mut bytes)?;
    if whole(&bytes) == Whole::CutOff {
        let more = left - bytes.len() as u64;
        file.take(more).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// How many bytes are whole batches, which these are, and what comes then.
fn whole_batches(bytes: &[u8], most_bytes: usize) -> (usize, Vec<Number>, Whole) {
    let (mut length, mut numbers) = (0, Vec::new());
    loop {
        match whole(&bytes[length..]) {
            Whole::Batch(number, more) if length == 0 || length + more <= most_bytes => {
                length += more;
                numbers.push(number);
            }
            end => return (length, numbers, end),
        }
    }
}
