//! What a store has at a moment, for those who read it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;

use crate::layout::{Found, Layout, have_log};
use crate::rows::by_hour;
use crate::{Error, log};

/// The records of a store. Reading needs no lock, and waits for nobody.
#[derive(Debug, Default)]
pub struct Snapshot {
    kinds: Vec<Kind>,
}

/// Those of a kind.
#[derive(Debug)]
pub struct Kind {
    /// Its name.
    pub name: String,
    /// The segments, oldest first.
    pub segments: Vec<PathBuf>,
    /// What they take.
    pub bytes: u64,
    /// What is in no segment yet.
    pub open: Vec<RecordBatch>,
}

impl Snapshot {
    /// Of the store in this directory.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be read, [`Error::NoStore`] and [`Error::Newer`].
    pub fn of(directory: &Path) -> Result<Self, Error> {
        let layout = Layout::new(directory);
        layout.check()?;
        // Logs first: one that becomes a segment meanwhile is found twice, and told by its number.
        let mut logged = Vec::new();
        for number in layout.logs()? {
            log::replay(&layout.log(number), |batch, _| logged.push((number, batch)))?;
        }
        let mut kinds: BTreeMap<String, (Vec<Found>, Vec<RecordBatch>)> = BTreeMap::new();
        for kind in layout.kinds()? {
            let segments = layout.segments(&kind)?;
            kinds.insert(kind, (segments, Vec::new()));
        }
        for (number, batch) in logged {
            let (segments, open) = kinds.entry(batch.kind.to_string()).or_default();
            open.extend(without(&batch.rows, number, segments));
        }
        let kinds = kinds.into_iter().map(|(name, (segments, open))| Kind {
            name,
            bytes: segments.iter().map(|found| found.bytes).sum(),
            segments: segments.into_iter().map(|found| found.path).collect(),
            open,
        });
        Ok(Self {
            kinds: kinds.collect(),
        })
    }

    /// Has a segment been merged, rolled up or removed since? Then the snapshot cannot be read any
    /// more, and another one can.
    pub fn has_gone(&self) -> bool {
        let mut segments = self.kinds.iter().flat_map(|kind| &kind.segments);
        segments.any(|path| !path.exists())
    }

    /// All kinds, in the order of their names.
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// The kind of this name.
    pub fn kind(&self, name: &str) -> Option<&Kind> {
        self.kinds.iter().find(|kind| kind.name == name)
    }
}

/// The rows of a batch of a log that are in none of these segments.
fn without(rows: &RecordBatch, log: u64, segments: &[Found]) -> Vec<RecordBatch> {
    let mut hours = by_hour(rows);
    let all = hours.len();
    hours.retain(|(begin_s, _)| !have_log(segments, *begin_s, log));
    if hours.len() == all {
        return vec![rows.clone()];
    }
    hours.into_iter().map(|(_, rows)| rows).collect()
}
