//! Records on their way into a store. A thread of its own writes them.

use std::path::{Path, PathBuf};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
#[cfg(feature = "live")]
use fathom_measure::Counts;
use fathom_record::Time;
use fathom_store::{Batch, Error, Settings, Status, Writer};

use super::handover::{Handover, Incoming};
use super::record_sink::RecordSink;
use crate::failure::say;
use crate::memory;

/// What is lost if the host crashes is at most what came in this time.
const SYNC: Duration = Duration::from_secs(1);
/// Records that wait for the disk take at most so much memory. What comes then is lost, and
/// counted.
const WAITING_BYTES: usize = 64 << 20;

/// What became of the records.
type Outcome = Result<Status, Error>;

/// Keeps records.
pub(super) struct Keeper {
    directory: PathBuf,
    handover: Handover<Outcome>,
    /// Of the thread.
    #[cfg_attr(
        not(feature = "live"),
        expect(dead_code, reason = "an agent tells of it")
    )]
    status: Arc<Mutex<Status>>,
}

impl Keeper {
    /// Opens the store in a directory.
    ///
    /// # Errors
    /// When it cannot be opened, or the system has no thread left.
    pub(super) fn open(directory: &Path, settings: Settings) -> anyhow::Result<Self> {
        let opened = Writer::open(directory, settings);
        let (writer, recovered) = opened.context("cannot keep records")?;
        for line in recovered.lines() {
            say!("fathom: {}: {line}", directory.display());
        }
        let status = Arc::new(Mutex::default());
        let (own, known) = (directory.to_owned(), Arc::clone(&status));
        let run = move |incoming| {
            let thread = Thread {
                directory: own,
                writer,
                incoming,
                status: known,
                is_troubled: false,
            };
            thread.run()
        };
        let handover = Handover::start("store", WAITING_BYTES, run);
        Ok(Self {
            directory: directory.to_owned(),
            handover: handover.context("cannot start a thread that writes")?,
            status,
        })
    }
}

impl RecordSink for Keeper {
    #[cfg(feature = "live")]
    fn name(&self) -> &'static str {
        "store"
    }

    #[cfg(feature = "live")]
    fn counts(&self) -> Counts {
        let status = *self.status.lock().unwrap_or_else(PoisonError::into_inner);
        let lost = self.handover.lost_rows() + status.lost_rows;
        Counts {
            measured: vec![("records", status.rows), ("lost", lost)],
            named: vec![
                ("segments written", status.segments),
                ("segments merged", status.merged_segments),
                ("segments removed", status.removed_segments),
            ],
        }
    }

    fn takes_batches(&self) -> bool {
        true
    }

    fn put_batches(&mut self, batches: &[Batch]) {
        self.handover.hand_over(batches);
    }

    #[cfg(feature = "live")]
    fn is_behind(&self) -> bool {
        self.handover.is_behind()
    }

    fn may_wait(&mut self, may_wait: bool) {
        self.handover.may_wait(may_wait);
    }

    /// Waits until all is on the disk.
    fn finish(&mut self) -> anyhow::Result<()> {
        let Some(outcome) = self.handover.finish() else {
            return Ok(());
        };
        let directory = self.directory.display();
        let outcome = outcome.map_err(|_| anyhow!("the thread that writes has failed"))?;
        let status = outcome.with_context(|| {
            format!("not all records are in segments: the next fathom that writes {directory} finds them in its log")
        })?;
        let lost = self.handover.lost_rows() + status.lost_rows;
        let kept = status.rows;
        say!("{directory}: {kept} records, {lost} lost");
        if lost > 0 {
            return Err(anyhow!(
                "{lost} records found no room in {directory}: its disk is full or too slow"
            ));
        }
        Ok(())
    }
}

struct Thread {
    directory: PathBuf,
    writer: Writer,
    incoming: Incoming,
    status: Arc<Mutex<Status>>,
    /// It has been said.
    is_troubled: bool,
}

impl Thread {
    fn run(mut self) -> Outcome {
        let mut next_sync = Instant::now() + SYNC;
        let mut is_synced = true;
        loop {
            let wait = next_sync.saturating_duration_since(Instant::now());
            let taken = self.incoming.take(wait, |batches| {
                let append = |batch| self.writer.append(batch);
                batches.into_iter().map(append).fold(Ok(()), Result::and)
            });
            let has_taken = taken.is_ok();
            let mut done = match taken {
                Ok(done) => {
                    is_synced = false;
                    done
                }
                Err(RecvTimeoutError::Timeout) => Ok(()),
                Err(RecvTimeoutError::Disconnected) => return self.writer.finish(),
            };
            if Instant::now() >= next_sync {
                next_sync = Instant::now() + SYNC;
                if !is_synced {
                    done = done.and(self.writer.sync());
                    is_synced = done.is_ok();
                }
                done = done.and(self.writer.tick(Time::now()));
                let status = self.writer.status();
                *self.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
                // Records and segments come and go in pieces that lie between others.
                memory::return_what_is_free();
            }
            self.tell(done, has_taken);
        }
    }

    /// Says once when something fails, and once when it does not any more.
    fn tell(&mut self, done: Result<(), Error>, has_taken: bool) {
        let directory = self.directory.display();
        match done {
            Err(error) if !self.is_troubled => {
                self.is_troubled = true;
                let error = anyhow::Error::new(error);
                say!("fathom: the store {directory}: {error:#}; measuring goes on");
            }
            Ok(()) if self.is_troubled && has_taken => {
                self.is_troubled = false;
                say!("fathom: the store {directory} takes records again");
            }
            _ => {}
        }
    }
}
