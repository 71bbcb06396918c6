//! What was taken of whom: the last number of each spool.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};

use fathom_record::Time;

use crate::layout::{Layout, sync_directory};
use crate::{Error, Number};

/// So many spools are remembered; those that were not heard from for longest are forgotten. An
/// agent has a new one each time it starts.
const MOST: usize = 65_536;

/// All senders that are known.
#[derive(Debug, Default)]
pub(crate) struct Senders {
    spools: HashMap<u128, Last>,
    have_changed: bool,
}

#[derive(Debug, Clone, Copy)]
struct Last {
    sequence: u64,
    /// When it was taken, since 1970.
    time_s: u64,
}

impl Senders {
    /// Those that the file tells.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be read.
    pub(crate) fn read(layout: &Layout) -> Result<Self, Error> {
        let path = layout.senders();
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            text => text.map_err(Error::file("read", &path))?,
        };
        let spools = text.lines().map(parse).collect::<Option<_>>();
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, "a line is no sender's");
        Ok(Self {
            spools: spools
                .ok_or_else(damaged)
                .map_err(Error::file("read", &path))?,
            have_changed: false,
        })
    }

    pub(crate) fn has_taken(&self, number: &Number) -> bool {
        let last = self.spools.get(&number.spool);
        last.is_some_and(|last| number.sequence <= last.sequence)
    }

    pub(crate) fn take(&mut self, number: &Number) {
        let time_s = Time::now().0 / 1_000_000_000;
        let sequence = number.sequence;
        let last = Last { sequence, time_s };
        let known = self.spools.entry(number.spool).or_insert(last);
        *known = Last {
            sequence: known.sequence.max(sequence),
            time_s,
        };
        self.have_changed = true;
    }

    pub(crate) fn take_all(&mut self, numbers: &[Number]) {
        numbers.iter().for_each(|number| self.take(number));
    }

    pub(crate) fn have_changed(&self) -> bool {
        self.have_changed
    }

    /// Writes the file, if there is something new.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be written, synced or renamed.
    pub(crate) fn write(&mut self, layout: &Layout) -> Result<(), Error> {
        if !self.have_changed {
            return Ok(());
        }
        self.forget();
        let mut text = String::new();
        for (spool, Last { sequence, time_s }) in &self.spools {
            // Writing to memory does not fail.
            let _ = writeln!(text, "{spool:032x} {sequence} {time_s}");
        }
        let path = layout.senders();
        let part = path.with_extension("part");
        let written = File::create(&part).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&part, &path)
        });
        written.map_err(Error::file("write", &path))?;
        sync_directory(layout.root())?;
        self.have_changed = false;
        Ok(())
    }

    fn forget(&mut self) {
        if self.spools.len() <= MOST {
            return;
        }
        let mut times: Vec<_> = self.spools.values().map(|last| last.time_s).collect();
        times.sort_unstable();
        // Some more, so that this is not done each time.
        let oldest = times[times.len() - MOST * 7 / 8];
        self.spools.retain(|_, last| last.time_s >= oldest);
    }
}

fn parse(line: &str) -> Option<(u128, Last)> {
    let mut words = line.split(' ');
    let spool = u128::from_str_radix(words.next()?, 16).ok()?;
    let sequence = words.next()?.parse().ok()?;
    let time_s = words.next()?.parse().ok()?;
    Some((spool, Last { sequence, time_s }))
}
