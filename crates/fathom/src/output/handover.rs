//! Records on their way to the thread of a sink: put together in batches, and bounded in memory.

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
const FULL_ROWS: usize = 8_192;
/// Between looks at whether less waits.
const PAUSE: Duration = Duration::from_millis(1);

/// The way to a thread, which ends with a `T`.
pub(super) struct Handover<T> {
    batches: Batches,
    handed_over: Instant,
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
        host: &str,
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
            batches: Batches::new(host),
            handed_over: Instant::now(),
            thread: Some((sender, thread)),
            waiting_bytes,
            most_bytes,
            may_wait: false,
            lost_rows: 0,
        })
    }

    /// Takes a record.
    pub(super) fn put(&mut self, record: &dyn Record) {
        self.batches.put(record);
        if self.batches.rows() >= FULL_ROWS {
            self.hand_over();
        }
    }

    /// Hands over what was taken long enough ago.
    pub(super) fn tick(&mut self) {
        if self.handed_over.elapsed() >= PERIOD {
            self.hand_over();
        }
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

    /// Hands over the rest, and waits until the thread has ended; `None`: it had before.
    pub(super) fn finish(&mut self) -> Option<thread::Result<T>> {
        self.may_wait = true;
        self.hand_over();
        let (sender, thread) = self.thread.take()?;
        drop(sender);
        Some(thread.join())
    }

    fn hand_over(&mut self) {
        self.handed_over = Instant::now();
        let rows = self.batches.rows() as u64;
        let (true, Some((sender, thread))) = (rows > 0, &self.thread) else {
            return;
        };
        let is_full = || self.waiting_bytes.load(Ordering::Relaxed) > self.most_bytes;
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
