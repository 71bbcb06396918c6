//! Records on their way to the threads of sinks: put together in batches, once for all of them, and
//! bounded in memory for each.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fathom_record::Record;
use fathom_store::{Batch, Batches};

/// A batch has at least what came in this time.
pub(super) const PERIOD: Duration = Duration::from_millis(500);
/// A batch that has so many records is not added to.
const FULL_ROWS: usize = 2_048;
/// Between looks at whether less waits.
const PAUSE: Duration = Duration::from_millis(1);

/// Puts records together, until there are many or until it is time.
pub(super) struct Collecting {
    batches: Batches,
    begun: Instant,
}

impl Collecting {
    /// Nothing yet, of this host.
    pub(super) fn new(host: &str) -> Self {
        Self {
            batches: Batches::new(host),
            begun: Instant::now(),
        }
    }

    /// Takes a record. `true`: there are enough to hand them over.
    pub(super) fn put(&mut self, record: &dyn Record) -> bool {
        self.batches.put(record);
        self.batches.rows() >= FULL_ROWS
    }

    /// Is it time to hand over what there is?
    pub(super) fn is_due(&self) -> bool {
        self.begun.elapsed() >= PERIOD
    }

    /// What there is, and begins anew.
    pub(super) fn take(&mut self) -> Vec<Batch> {
        self.begun = Instant::now();
        self.batches.take()
    }
}

/// The way to a thread, which ends with a `T`.
pub(super) struct Handover<T> {
    /// Taken by the end.
    thread: Option<(Sender<Vec<Batch>>, JoinHandle<T>)>,
    waiting_bytes: Arc<AtomicUsize>,
    most_bytes: usize,
    may_wait: bool,
    lost_rows: u64,
}

/// The thread's end of it.
pub(super) struct Incoming {
    receiver: Receiver<Vec<Batch>>,
    waiting_bytes: Arc<AtomicUsize>,
}

impl<T: Send + 'static> Handover<T> {
    /// Starts the thread `name`. Records that wait for it take at most so much memory; what comes
    /// then is lost, and counted.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub(super) fn start(
        name: &str,
        most_bytes: usize,
        run: impl FnOnce(Incoming) -> T + Send + 'static,
    ) -> io::Result<Self> {
        let (sender, receiver) = channel();
        let waiting_bytes = Arc::new(AtomicUsize::new(0));
        let incoming = Incoming {
            receiver,
            waiting_bytes: waiting_bytes.clone(),
        };
        let thread = thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || run(incoming))?;
        Ok(Self {
            thread: Some((sender, thread)),
            waiting_bytes,
            most_bytes,
            may_wait: false,
            lost_rows: 0,
        })
    }

    /// Does so much wait that more should wait, too?
    #[cfg(feature = "live")]
    pub(super) fn is_behind(&self) -> bool {
        self.waiting_bytes.load(Ordering::Relaxed) > self.most_bytes / 4
    }

    /// Whether what finds too much waiting waits itself, or is lost.
    pub(super) fn may_wait(&mut self, may_wait: bool) {
        self.may_wait = may_wait;
    }

    /// Records that found no room.
    pub(super) fn lost_rows(&self) -> u64 {
        self.lost_rows
    }

    /// Waits until the thread has ended; `None`: it had before.
    pub(super) fn finish(&mut self) -> Option<thread::Result<T>> {
        let (sender, thread) = self.thread.take()?;
        drop(sender);
        Some(thread.join())
    }

    /// Hands these over.
    pub(super) fn hand_over(&mut self, batches: &[Batch]) {
        let rows: u64 = batches.iter().map(|it| it.rows.num_rows() as u64).sum();
        let (true, Some((sender, thread))) = (rows > 0, &self.thread) else {
            return;
        };
        let is_full = || self.waiting_bytes.load(Ordering::Relaxed) > self.most_bytes;
        while self.may_wait && is_full() && !thread.is_finished() {
            thread::sleep(PAUSE);
        }
        let is_full = is_full();
        let bytes = bytes_of(batches);
        self.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
        if is_full || sender.send(batches.to_vec()).is_err() {
            self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.lost_rows += rows;
        }
    }
}

impl Incoming {
    /// Waits so long for batches, and does with them what is to be done. They wait until then.
    ///
    /// # Errors
    /// When none came in time, or no more come.
    pub(super) fn take<R>(
        &self,
        wait: Duration,
        work: impl FnOnce(Vec<Batch>) -> R,
    ) -> Result<R, RecvTimeoutError> {
        let batches = self.receiver.recv_timeout(wait)?;
        let bytes = bytes_of(&batches);
        let done = work(batches);
        self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
        Ok(done)
    }
}

fn bytes_of(batches: &[Batch]) -> usize {
    batches.iter().map(Batch::memory_bytes).sum()
}
