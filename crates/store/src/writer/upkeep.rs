//! What becomes of segments: they merge, have fewer rows when they are old, and go.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fathom_record::Time;

use super::{Settings, Status};
use crate::layout::{Found, Layout};
use crate::{Error, merge, rollup};

/// After the end of an hour: what its last log has is a segment by then.
const MINUTE_S: i64 = 60;

/// Looks after the segments that are there.
#[derive(Debug)]
pub(super) struct Upkeep {
    layout: Layout,
    settings: Settings,
    /// Kinds and hours whose segments can neither merge nor be rolled up.
    stay: BTreeSet<(String, i64)>,
    /// What it has done.
    status: Arc<Mutex<Status>>,
    /// It is to leave things as they are.
    is_ending: Arc<AtomicBool>,
}

impl Upkeep {
    pub(super) fn new(
        layout: Layout,
        settings: Settings,
        status: Arc<Mutex<Status>>,
        is_ending: Arc<AtomicBool>,
    ) -> Self {
        Self {
            layout,
            settings,
            stay: BTreeSet::new(),
            status,
            is_ending,
        }
    }

    /// Does all that is due.
    ///
    /// # Errors
    /// When something cannot be read or written, and [`Error::Ending`].
    pub(super) fn do_all(&mut self, now: Time) -> Result<(), Error> {
        self.retain(now)?;
        self.merge_due(now)?;
        self.roll_up_due(now)
    }

    /// Removes the segment that goes first. `false`: there is none.
    pub(super) fn make_room(&self) -> Result<bool, Error> {
        match self.all()?.first() {
            Some(oldest) => self.remove(oldest).map(|()| true),
            None => Ok(false),
        }
    }

    /// All segments in the order in which they make room: those of the shortest intervals first,
    /// and of these the oldest.
    fn all(&self) -> Result<Vec<Found>, Error> {
        let mut all = Vec::new();
        for kind in self.layout.kinds()? {
            all.extend(self.layout.segments(&kind)?);
        }
        all.sort_by_key(|found| (found.name.interval_s, found.name.begin_s));
        Ok(all)
    }

    fn remove(&self, found: &Found) -> Result<(), Error> {
        fs::remove_file(&found.path).map_err(Error::file("remove", &found.path))?;
        self.count(|status| status.removed_segments += 1);
        if let Some(day) = found.path.parent() {
            // Fails where there are others.
            let _ = fs::remove_dir(day);
        }
        Ok(())
    }

    fn count(&self, count: impl FnOnce(&mut Status)) {
        count(&mut self.status.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Removes what is too old or too much.
    pub(super) fn retain(&mut self, now: Time) -> Result<(), Error> {
        let Settings {
            max_age, max_bytes, ..
        } = self.settings;
        if max_age.is_none() && max_bytes.is_none() {
            return Ok(());
        }
        let is_old = |found: &Found| {
            let age_s = seconds(now).saturating_sub(found.name.begin_s);
            max_age.is_some_and(|most| u64::try_from(age_s).is_ok_and(|age| age > most.as_secs()))
        };
        let (old, young): (Vec<_>, Vec<_>) = self.all()?.into_iter().partition(is_old);
        old.iter().try_for_each(|found| self.remove(found))?;
        let mut bytes: u64 = young.iter().map(|found| found.bytes).sum();
        for found in &young {
            if max_bytes.is_some_and(|most| bytes > most) {
                self.remove(found)?;
                bytes -= found.bytes;
            }
        }
        Ok(())
    }

    /// Merges small segments in a row, one run of each kind.
    pub(super) fn merge_due(&mut self, now: Time) -> Result<(), Error> {
        for kind in self.layout.kinds()? {
            let segments = self.layout.segments(&kind)?;
            let Some(run) = self.first(&kind, merge::due(&segments, seconds(now))) else {
                continue;
            };
            if merge::merge(&self.layout, &kind, run, &|| self.goes_on())? {
                self.count(|status| status.merged_segments += run.len() as u64);
            } else {
                self.stay.insert((kind, run[0].name.hour()));
            }
        }
        Ok(())
    }

    /// Makes records of longer intervals of those of an hour that is old enough, one of each kind.
    pub(super) fn roll_up_due(&mut self, now: Time) -> Result<(), Error> {
        // First into hours: what is old enough for these need not become minutes.
        let Settings {
            hours_after,
            minutes_after,
            ..
        } = self.settings;
        for (after, interval_s) in [(hours_after, 3600), (minutes_after, 60)] {
            let Some(after) = after else { continue };
            let after_s = i64::try_from(after.as_secs()).unwrap_or(i64::MAX);
            let before_s = seconds(now).saturating_sub(after_s.max(MINUTE_S));
            for kind in self.layout.kinds()? {
                let segments = self.layout.segments(&kind)?;
                let due = rollup::due(&segments, interval_s, before_s);
                let Some(run) = self.first(&kind, due) else {
                    continue;
                };
                if rollup::fold(&self.layout, &kind, run, interval_s, &|| self.goes_on())? {
                    self.count(|status| status.rolled_up_segments += run.len() as u64);
                } else {
                    self.stay.insert((kind, run[0].name.hour()));
                }
            }
        }
        Ok(())
    }

    fn goes_on(&self) -> Result<(), Error> {
        if self.is_ending.load(Ordering::Relaxed) {
            return Err(Error::Ending);
        }
        Ok(())
    }

    /// The first of these with which something can be done.
    fn first<'a>(&self, kind: &str, runs: Vec<&'a [Found]>) -> Option<&'a [Found]> {
        let stays = |run: &&[Found]| self.stay.contains(&(kind.to_owned(), run[0].name.hour()));
        runs.into_iter().find(|run| !stays(run))
    }
}

/// About when the last records were kept, by the clock of then.
///
/// # Errors
/// [`Error::File`] when the directory cannot be read.
pub(super) fn last_kept(layout: &Layout) -> Result<Option<Time>, Error> {
    let mut last = None;
    for kind in layout.kinds()? {
        let segments = layout.segments(&kind)?;
        let names = segments.iter().map(|found| &found.name);
        last = last.max(names.map(|name| (name.last, name.begin_s)).max());
    }
    let seconds = last.and_then(|(_, begin_s)| u64::try_from(begin_s).ok());
    Ok(seconds.map(|seconds| Time(seconds.saturating_mul(1_000_000_000))))
}

/// Since 1970.
fn seconds(time: Time) -> i64 {
    i64::try_from(time.0 / 1_000_000_000).unwrap_or(i64::MAX)
}
