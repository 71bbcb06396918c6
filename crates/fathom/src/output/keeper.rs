//! Records on their way into a store. A thread of its own writes them.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
#[cfg(feature = "live")]
use fathom_measure::Counts;
use fathom_record::{Record, Time};
use fathom_store::{Batch, Batches, Error, Recovered, Settings, Status, Writer};

use super::record_sink::RecordSink;
use crate::failure::say;

/// What is lost if the host crashes is at most what came in this time; and a batch has at least
/// what came in half of it.
const SYNC: Duration = Duration::from_secs(1);
/// A batch that has so many records is not added to.
const FULL_ROWS: usize = 8_192;
/// Records that wait for the disk take at most so much memory. What comes then is lost, and
/// counted.
const WAITING_BYTES: usize = 64 << 20;
/// Between looks at whether less waits.
const PAUSE: Duration = Duration::from_millis(1);

/// What became of the records.
type Outcome = Result<Status, Error>;

/// Keeps records.
pub(super) struct Keeper {
    directory: PathBuf,
    batches: Batches,
    handed_over: Instant,
    /// Taken by the end.
    thread: Option<(Sender<Vec<Batch>>, JoinHandle<Outcome>)>,
    waiting_bytes: Arc<AtomicUsize>,
    /// Of the thread.
    #[cfg_attr(
        not(feature = "live"),
        expect(dead_code, reason = "an agent tells of it")
    )]
    status: Arc<Mutex<Status>>,
    lost_rows: u64,
    may_wait: bool,
}

impl Keeper {
    /// Opens the store in a directory.
    ///
    /// # Errors
    /// When it cannot be opened, or the system has no thread left.
    pub(super) fn open(directory: &Path, settings: Settings, host: &str) -> anyhow::Result<Self> {
        let opened = Writer::open(directory, settings);
        let (writer, recovered) = opened.context("cannot keep records")?;
        say_recovered(directory, &recovered);
        let waiting_bytes = Arc::new(AtomicUsize::new(0));
        let (status, (sender, receiver)) = (Arc::new(Mutex::default()), channel());
        let thread = Thread {
            directory: directory.to_owned(),
            writer,
            receiver,
            waiting_bytes: waiting_bytes.clone(),
            status: Arc::clone(&status),
            is_troubled: false,
        };
        let handle = thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || thread.run())
            .context("cannot start a thread that writes")?;
        Ok(Self {
            directory: directory.to_owned(),
            batches: Batches::new(host),
            handed_over: Instant::now(),
            thread: Some((sender, handle)),
            waiting_bytes,
            status,
            lost_rows: 0,
            may_wait: false,
        })
    }

    fn hand_over(&mut self) {
        self.handed_over = Instant::now();
        let rows = self.batches.rows() as u64;
        let (true, Some((sender, thread))) = (rows > 0, &self.thread) else {
            return;
        };
        let is_full = || self.waiting_bytes.load(Ordering::Relaxed) > WAITING_BYTES;
        while self.may_wait && is_full() && !thread.is_finished() {
            thread::sleep(PAUSE);
        }
        let is_full = is_full();
        let batches = self.batches.take();
        let bytes = bytes_of(&batches);
        self.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
        if is_full || sender.send(batches).is_err() {
            self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.lost_rows += rows;
        }
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
        let lost = self.lost_rows + status.lost_rows;
        Counts {
            measured: vec![("records", status.rows - status.lost_rows), ("lost", lost)],
            named: vec![
                ("segments written", status.segments),
                ("segments merged", status.merged_segments),
                ("segments removed", status.removed_segments),
            ],
        }
    }

    fn put(&mut self, record: &dyn Record) {
        self.batches.put(record);
        if self.batches.rows() >= FULL_ROWS {
            self.hand_over();
        }
    }

    /// Hands over what was taken long enough ago.
    fn tick(&mut self) {
        if self.handed_over.elapsed() >= SYNC / 2 {
            self.hand_over();
        }
    }

    #[cfg(feature = "live")]
    fn is_behind(&self) -> bool {
        self.waiting_bytes.load(Ordering::Relaxed) > WAITING_BYTES / 4
    }

    fn may_wait(&mut self, may_wait: bool) {
        self.may_wait = may_wait;
    }

    /// Waits until all is on the disk.
    fn finish(&mut self) -> anyhow::Result<()> {
        self.may_wait = true;
        self.hand_over();
        let Some((sender, thread)) = self.thread.take() else {
            return Ok(());
        };
        drop(sender);
        let directory = self.directory.display();
        let outcome = thread.join();
        let outcome = outcome.map_err(|_| anyhow!("the thread that writes has failed"))?;
        let status = outcome.with_context(|| {
            format!("not all records are in segments: the next fathom that writes {directory} finds them in its log")
        })?;
        let lost = self.lost_rows + status.lost_rows;
        let kept = status.rows.saturating_sub(status.lost_rows);
        say!("{directory}: {kept} records, {lost} lost");
        if lost > 0 {
            return Err(anyhow!(
                "{lost} records found no room in {directory}: its disk is full or too slow"
            ));
        }
        Ok(())
    }
}

fn bytes_of(batches: &[Batch]) -> usize {
    let bytes = batches
        .iter()
        .map(|batch| batch.rows.get_array_memory_size());
    bytes.sum()
}

fn say_recovered(directory: &Path, recovered: &Recovered) {
    let directory = directory.display();
    if recovered.rows > 0 {
        say!(
            "fathom: {directory}: {} records of the process before were in its log, and are in segments now",
            recovered.rows
        );
    }
    if recovered.cut_off_bytes > 0 {
        say!(
            "fathom: {directory}: the last {} bytes of the log are left out: they were being written when it ended",
            recovered.cut_off_bytes
        );
    }
    if recovered.waiting_logs > 0 {
        say!(
            "fathom: {directory}: the disk is full: {} logs of processes before are left as they are",
            recovered.waiting_logs
        );
    }
    for path in &recovered.aside {
        say!(
            "fathom: {directory}: a file that cannot be read, or is none of the store's, is now {}",
            path.display()
        );
    }
}

struct Thread {
    directory: PathBuf,
    writer: Writer,
    receiver: Receiver<Vec<Batch>>,
    waiting_bytes: Arc<AtomicUsize>,
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
            let received = self.receiver.recv_timeout(wait);
            let (mut done, mut has_taken) = (Ok(()), false);
            match received {
                Ok(batches) => {
                    (is_synced, has_taken) = (false, true);
                    let bytes = bytes_of(&batches);
                    for batch in batches {
                        done = done.and(self.writer.append(batch));
                    }
                    self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.writer.finish(),
            }
            if Instant::now() >= next_sync {
                next_sync = Instant::now() + SYNC;
                if !is_synced {
                    done = done.and(self.writer.sync());
                    is_synced = done.is_ok();
                }
                done = done.and(self.writer.tick(Time::now()));
                *self.status.lock().unwrap_or_else(PoisonError::into_inner) = self.writer.status();
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
