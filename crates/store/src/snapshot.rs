//! What a store has at a moment, for those who read it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;

use crate::layout::{Found, Layout};
use crate::{Error, log, segment};

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
            logged.push((number, log::replay(&layout.log(number))?.batches));
        }
        let mut kinds: BTreeMap<String, (Vec<Found>, Vec<RecordBatch>)> = BTreeMap::new();
        for kind in layout.kinds()? {
            let segments = layout.segments(&kind)?;
            kinds.insert(kind, (segments, Vec::new()));
        }
        for (number, batches) in logged {
            for batch in batches {
                let (segments, open) = kinds.entry(batch.kind.to_string()).or_default();
                let rows = std::slice::from_ref(&batch.rows);
                let mut hours = segment::hours(&batch.kind, number, rows)?;
                let all = hours.len();
                hours.retain(|hour| !hour.is_in(segments));
                if hours.len() == all {
                    open.push(batch.rows);
                } else {
                    open.extend(hours.iter().map(|hour| hour.rows().clone()));
                }
            }
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
