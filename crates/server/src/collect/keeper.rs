//! The thread that writes the store. What waits is written together, so that many agents share the
//! time that the disk takes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use fathom_record::Time;
use fathom_store::{Batch, Batches, Error, Sent, Status, Writer};
use tokio::sync::oneshot;

use super::exporters::{Exporters, Source};

/// What came by IPFIX is synced, and the store looked after, at least so often.
const SYNC: Duration = Duration::from_secs(1);
/// How often it is written what came from whom.
const EXPORTERS: Duration = Duration::from_secs(60);
/// So much work waits at most, and so much is written between two syncs.
const MOST_WAITING: usize = 64;

/// What the thread is asked for.
pub(super) enum Work {
    /// Batches that an agent sent: keep them for sure, and say so.
    Sent {
        from: Source,
        batches: Vec<Sent>,
        done: oneshot::Sender<Outcome>,
    },
    /// Batches that were made here.
    Own(Vec<Batch>),
    /// There will be no more.
    End,
}

/// Batches that were sent are kept, or were before; or why not.
pub(super) type Outcome = Result<Taken, String>;

/// What became of batches.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) records: u64,
    pub(super) repeated: u64,
    /// Records that the store can never take, and why.
    pub(super) refused: u64,
    pub(super) reason: Option<String>,
}

/// The way to the thread.
pub(super) struct Keeper {
    sender: SyncSender<Work>,
    thread: JoinHandle<Result<Status, Error>>,
}

impl Keeper {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has none left, or this host has no name.
    pub(super) fn start(
        directory: &Path,
        writer: Writer,
        exporters: Arc<Exporters>,
    ) -> anyhow::Result<Self> {
        let (sender, receiver) = sync_channel(MOST_WAITING);
        let host = nix::unistd::gethostname().context("this host has no name")?;
        let now = Instant::now();
        let thread = Thread {
            directory: directory.to_owned(),
            writer,
            receiver,
            exporters,
            batches: Batches::new(&host.to_string_lossy()),
            synced: now,
            told_exporters: now,
            is_synced: true,
            is_troubled: false,
            is_over: false,
            refused_rows: 0,
        };
        let thread = thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || thread.run())
            .context("cannot start a thread that writes")?;
        Ok(Self { sender, thread })
    }

    /// Another way to the thread.
    pub(super) fn sender(&self) -> SyncSender<Work> {
        self.sender.clone()
    }

    pub(super) fn is_running(&self) -> bool {
        !self.thread.is_finished()
    }

    /// Waits until all is in segments.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn finish(self) -> anyhow::Result<Status> {
        // A thread that has failed takes nothing.
        let _ = self.sender.send(Work::End);
        let outcome = self.thread.join();
        let outcome = outcome.map_err(|_| anyhow!("the thread that writes has failed"))?;
        outcome.context("not all records are in segments: the next collector finds them in the log")
    }
}

/// Hands work to the thread, unless too much waits.
pub(super) fn try_hand_over(sender: &SyncSender<Work>, work: Work) -> Result<(), &'static str> {
    sender.try_send(work).map_err(|refused| match refused {
        TrySendError::Full(_) => "the store is slow",
        TrySendError::Disconnected(_) => "the collector ends",
    })
}

struct Thread {
    directory: PathBuf,
    writer: Writer,
    receiver: Receiver<Work>,
    exporters: Arc<Exporters>,
    /// What came from whom.
    batches: Batches,
    synced: Instant,
    told_exporters: Instant,
    is_synced: bool,
    /// It has been said.
    is_troubled: bool,
    is_over: bool,
    /// Of IPFIX, with columns that the store cannot have.
    refused_rows: u64,
}

impl Thread {
    fn run(mut self) -> Result<Status, Error> {
        while !self.is_over {
            let wait = SYNC.saturating_sub(self.synced.elapsed());
            match self.receiver.recv_timeout(wait) {
                Ok(first) => self.write(first),
                Err(RecvTimeoutError::Timeout) => self.sync_due(),
                Err(RecvTimeoutError::Disconnected) => self.is_over = true,
            }
        }
        self.tell_exporters();
        let mut status = self.writer.finish()?;
        status.lost_rows += self.refused_rows;
        Ok(status)
    }

    /// Writes what waits, and syncs it if somebody wants to know.
    fn write(&mut self, first: Work) {
        let mut waiting = Vec::new();
        let mut next = Some(first);
        for _ in 0..MOST_WAITING {
            let Some(work) = next.take() else { break };
            self.is_synced = false;
            match work {
                Work::Own(batches) => {
                    for batch in batches {
                        let kept = self.append(batch);
                        self.tell(kept);
                    }
                }
                Work::Sent {
                    from,
                    batches,
                    done,
                } => waiting.push((from, self.append_sent(batches), done)),
                Work::End => self.is_over = true,
            }
            next = self.receiver.try_recv().ok();
        }
        if waiting.is_empty() {
            self.sync_due();
            return;
        }
        let synced = self.sync();
        for (from, outcome, done) in waiting {
            let outcome = outcome.and_then(|taken| synced.clone().map(|()| taken));
            if let Ok(taken) = &outcome {
                self.count(from, taken);
            }
            // Who asked may have gone: it sends again, and what is here is known.
            let _ = done.send(outcome);
        }
    }

    fn append(&mut self, batch: Batch) -> Result<(), Error> {
        let rows = batch.rows.num_rows() as u64;
        self.writer
            .accepts(&batch)
            .inspect_err(|_| self.refused_rows += rows)?;
        self.writer.append(batch)
    }

    fn append_sent(&mut self, batches: Vec<Sent>) -> Outcome {
        let mut taken = Taken::default();
        for sent in batches {
            let rows = sent.batch.rows.num_rows() as u64;
            match self.writer.append_sent(&sent) {
                Ok(true) => taken.records += rows,
                Ok(false) => taken.repeated += rows,
                Err(error @ Error::Column { .. }) => {
                    taken.refused += rows;
                    taken.reason = Some(error.to_string());
                }
                Err(error) => return Err(self.tell(Err(error))),
            }
        }
        Ok(taken)
    }

    fn count(&self, from: Source, taken: &Taken) {
        self.exporters.count(from, |counts| {
            counts.records += taken.records;
            counts.repeated += taken.repeated;
            counts.refused += taken.refused;
        });
        if let Some(reason) = &taken.reason {
            self.exporters.malformed(from, reason);
        }
    }

    fn sync(&mut self) -> Result<(), String> {
        self.synced = Instant::now();
        let synced = self.writer.sync();
        self.is_synced = synced.is_ok();
        if let Err(error) = synced {
            return Err(self.tell(Err(error)));
        }
        let ticked = self.writer.tick(Time::now());
        self.tell(ticked);
        if self.told_exporters.elapsed() >= EXPORTERS {
            self.tell_exporters();
        }
        Ok(())
    }

    fn sync_due(&mut self) {
        if self.synced.elapsed() >= SYNC {
            // A failure has been told.
            let _ = self.sync();
        }
    }

    fn tell_exporters(&mut self) {
        self.told_exporters = Instant::now();
        for record in self.exporters.changed() {
            self.batches.put(&record);
        }
        for batch in self.batches.take() {
            let kept = self.append(batch);
            self.tell(kept);
        }
    }

    /// Says once when something fails, and once when it does not any more. Returns what failed.
    fn tell(&mut self, done: Result<(), Error>) -> String {
        let directory = self.directory.display();
        let Err(error) = done else {
            if self.is_troubled {
                self.is_troubled = false;
                eprintln!("fathom-server: the store {directory} takes records again");
            }
            return String::new();
        };
        let error = format!("{:#}", anyhow::Error::new(error));
        if !self.is_troubled {
            self.is_troubled = true;
            eprintln!("fathom-server: the store {directory}: {error}");
        }
        error
    }
}
