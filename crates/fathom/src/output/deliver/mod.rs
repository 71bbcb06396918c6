//! Records on their way to a collector of fathom's, which says what it has kept.
//!
//! One thread puts batches into the queue: memory first, then the spool. Another sends what has
//! waited longest, and removes it when the collector has it for sure. Measuring waits for neither.

mod client;
mod queue;
mod spool;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
#[cfg(feature = "live")]
use fathom_measure::Counts;
use fathom_record::{Count, Record, Time};
use fathom_store::{Batch, Batches};

use super::record_sink::RecordSink;
use crate::arguments::CollectorUrl;
use crate::failure::say;
use client::{Client, Failure};
use queue::Queue;
use spool::Spool;

/// A batch has at least what came in this time.
const BATCH: Duration = Duration::from_millis(500);
/// A batch that has so many records is not added to.
const FULL_ROWS: usize = 8_192;
/// Records that wait for the queue take at most so much memory. What comes then is lost, and
/// counted.
const WAITING_BYTES: usize = 16 << 20;
/// Between looks at whether less waits.
const PAUSE: Duration = Duration::from_millis(1);
/// How long who may wait does so for a collector that acknowledges nothing.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two attempts to reach a collector that is away: at first, and at most.
const FIRST_BACKOFF: Duration = Duration::from_millis(100);
const MOST_BACKOFF: Duration = Duration::from_secs(10);

/// Sends records to one collector.
pub(super) struct Delivery {
    batches: Batches,
    handed_over: Instant,
    /// Taken by the end.
    thread: Option<(Sender<Vec<Batch>>, JoinHandle<()>)>,
    shared: Arc<Shared>,
    /// Records that found no room before the queue.
    lost: u64,
    /// Of all that were lost, those that a record tells of.
    told: u64,
}

/// What the threads share.
struct Shared {
    destination: CollectorUrl,
    queue: Mutex<Queue>,
    /// The queue has changed.
    changed: Condvar,
    waiting_bytes: AtomicUsize,
    may_wait: AtomicBool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, queue: MutexGuard<'a, Queue>, time: Duration) -> MutexGuard<'a, Queue> {
        let woken = self.changed.wait_timeout(queue, time);
        woken.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Delivery {
    /// Begins with what the spool has. A collector that is away is none of its errors.
    ///
    /// # Errors
    /// When a certificate cannot be read, the spool cannot be opened, or the system has no threads
    /// left.
    pub(super) fn open(
        destination: &CollectorUrl,
        spool: Option<(&Path, u64)>,
        host: &str,
    ) -> anyhow::Result<Self> {
        let client = Client::new(destination)?;
        let spool = spool
            .map(|(directory, bytes)| Spool::open(&directory.join(destination.directory()), bytes));
        let queue = Queue::new(spool.transpose().context("cannot open the spool")?)?;
        let shared = Arc::new(Shared {
            destination: destination.clone(),
            queue: Mutex::new(queue),
            changed: Condvar::new(),
            waiting_bytes: AtomicUsize::new(0),
            may_wait: AtomicBool::new(false),
        });
        let (sender, receiver) = channel();
        let filling = shared.clone();
        let thread = thread::Builder::new().name("spool".to_owned());
        let thread = thread.spawn(move || fill(&filling, &receiver));
        let thread = thread.context("cannot start a thread that keeps the spool")?;
        let sending = shared.clone();
        let second = thread::Builder::new().name("send".to_owned());
        second
            .spawn(move || send(&sending, &client))
            .context("cannot start a thread that sends")?;
        Ok(Self {
            batches: Batches::new(host),
            handed_over: Instant::now(),
            thread: Some((sender, thread)),
            shared,
            lost: 0,
            told: 0,
        })
    }

    fn hand_over(&mut self) {
        self.handed_over = Instant::now();
        let rows = self.batches.rows() as u64;
        let (true, Some((sender, thread))) = (rows > 0, &self.thread) else {
            return;
        };
        let waiting = &self.shared.waiting_bytes;
        let is_full = || waiting.load(Ordering::Relaxed) > WAITING_BYTES;
        let may_wait = &self.shared.may_wait;
        while may_wait.load(Ordering::Relaxed) && is_full() && !thread.is_finished() {
            thread::sleep(PAUSE);
        }
        let is_full = is_full();
        let batches = self.batches.take();
        let bytes = bytes_of(&batches);
        waiting.fetch_add(bytes, Ordering::Relaxed);
        if is_full || sender.send(batches).is_err() {
            waiting.fetch_sub(bytes, Ordering::Relaxed);
            self.lost += rows;
        }
    }

    /// The collector's records say how many are missing.
    fn tell_losses(&mut self) {
        // Whoever has the queue is writing to the disk: measuring does not wait for it.
        let Ok(queue) = self.shared.queue.try_lock() else {
            return;
        };
        let lost = self.lost + queue.counts().lost;
        drop(queue);
        if lost > self.told {
            self.told = lost;
            let count = Count::new(Time::now(), "export", "lost_records", lost);
            self.batches.put(&count);
        }
    }
}

impl RecordSink for Delivery {
    #[cfg(feature = "live")]
    fn name(&self) -> &'static str {
        "collector"
    }

    #[cfg(feature = "live")]
    fn counts(&self) -> Counts {
        let queue = self.shared.lock();
        let counts = queue.counts();
        Counts {
            measured: vec![
                ("records", counts.acknowledged),
                ("lost", self.lost + counts.lost),
            ],
            named: vec![
                ("refused", counts.refused),
                ("collectors away", u64::from(queue.trouble().is_some())),
            ],
        }
    }

    fn put(&mut self, record: &dyn Record) {
        self.batches.put(record);
        if self.batches.rows() >= FULL_ROWS {
            self.hand_over();
        }
    }

    fn tick(&mut self) {
        if self.handed_over.elapsed() >= BATCH {
            self.tell_losses();
            self.hand_over();
        }
    }

    #[cfg(feature = "live")]
    fn is_behind(&self) -> bool {
        self.shared.waiting_bytes.load(Ordering::Relaxed) > WAITING_BYTES / 4
    }

    fn may_wait(&mut self, may_wait: bool) {
        self.shared.may_wait.store(may_wait, Ordering::Relaxed);
    }

    /// Waits as long as the collector acknowledges something. The spool keeps the rest.
    fn finish(&mut self) -> anyhow::Result<()> {
        self.may_wait(true);
        self.tell_losses();
        self.hand_over();
        let Some((sender, thread)) = self.thread.take() else {
            return Ok(());
        };
        drop(sender);
        let ended = thread.join();
        ended.map_err(|_| anyhow!("the thread that keeps the spool has failed"))?;
        let mut queue = self.shared.lock();
        while !queue.is_empty() && !queue.is_given_up(PATIENCE) {
            queue = self.shared.wait(queue, PATIENCE / 10);
        }
        let left = queue.end();
        let counts = queue.counts();
        let trouble = queue.trouble().map(str::to_owned);
        drop(queue);
        self.shared.changed.notify_all();
        let destination = &self.shared.destination;
        let lost = self.lost + counts.lost;
        say!(
            "{destination}: {} records acknowledged, {} refused, {lost} lost",
            counts.acknowledged,
            counts.refused
        );
        if let Some(directory) = left.spool {
            say!(
                "{destination}: the records that it has not acknowledged wait in {}",
                directory.display()
            );
        }
        if lost + counts.refused > 0 {
            let cause = trouble.unwrap_or_else(|| "it is too slow".to_owned());
            return Err(anyhow!(cause).context(format!(
                "{} records have not reached {destination}, and are lost",
                lost + counts.refused
            )));
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

/// Puts batches into the queue.
fn fill(shared: &Shared, receiver: &Receiver<Vec<Batch>>) {
    loop {
        let received = receiver.recv_timeout(BATCH);
        let mut queue = shared.lock();
        match received {
            Ok(batches) => {
                let bytes = bytes_of(&batches);
                for batch in batches {
                    while shared.may_wait.load(Ordering::Relaxed)
                        && !queue.has_room()
                        && !queue.is_given_up(PATIENCE)
                    {
                        queue = shared.wait(queue, PATIENCE / 10);
                    }
                    queue.put(&batch);
                }
                shared.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        queue.tick();
        let news = queue.take_news();
        drop(queue);
        shared.changed.notify_all();
        for line in news {
            say!("fathom: {}: {line}", shared.destination);
        }
    }
}

/// Sends what the queue has.
fn send(shared: &Shared, client: &Client) {
    let mut backoff = FIRST_BACKOFF;
    loop {
        let mut queue = shared.lock();
        let body = loop {
            if queue.has_ended() {
                return;
            }
            match queue.body() {
                Some(body) => break body,
                None => queue = shared.wait(queue, BATCH),
            }
        };
        drop(queue);
        let sent = client.post(&body.bytes);
        let mut queue = shared.lock();
        match sent {
            Ok(words) => {
                queue.acknowledge(&body, words);
                backoff = FIRST_BACKOFF;
            }
            Err(Failure::Refused(reason)) => queue.refuse(&body, reason),
            Err(Failure::Away(reason)) => {
                queue.set_trouble(reason, backoff > FIRST_BACKOFF);
                let until = Instant::now() + backoff;
                // A connection that was kept may have been closed: that is no trouble yet.
                backoff = (backoff * 2).min(MOST_BACKOFF);
                while !queue.has_ended() && Instant::now() < until {
                    let left = until.saturating_duration_since(Instant::now());
                    queue = shared.wait(queue, left.max(PAUSE));
                }
            }
        }
        let news = queue.take_news();
        drop(queue);
        shared.changed.notify_all();
        for line in news {
            say!("fathom: {}: {line}", shared.destination);
        }
    }
}
