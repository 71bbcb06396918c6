//! Records on their way to who says what it has kept: a collector of fathom's, or ClickHouse.
//!
//! One thread puts batches into the queue: memory first, then the spool. Another sends what has
//! waited longest, and removes it when the receiver has it for sure. Measuring waits for neither.

mod client;
mod queue;
mod receiver;
mod spool;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
#[cfg(feature = "live")]
use fathom_measure::Counts;
use fathom_store::Batch;

use super::handover::{Handover, Incoming, PERIOD};
use super::record_sink::RecordSink;
use crate::arguments::CollectorUrl;
use crate::failure::say;
use client::Client;
use queue::{Body, Queue};
#[cfg(feature = "live")]
pub(crate) use receiver::Taken;
pub(crate) use receiver::{Destination, Failure, Receiver};
use spool::Spool;

/// Records that wait for the queue take at most so much memory. What comes then is lost, and
/// counted.
const WAITING_BYTES: usize = 16 << 20;
/// Between two looks at the clock, at least.
const PAUSE: Duration = Duration::from_millis(1);
/// How long who may wait does so for a receiver that acknowledges nothing.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two attempts to reach a receiver that is away: at first, and at most.
const FIRST_BACKOFF: Duration = Duration::from_millis(100);
const MOST_BACKOFF: Duration = Duration::from_secs(10);

/// Sends records to one receiver.
pub(crate) struct Delivery {
    handover: Handover<()>,
    shared: Arc<Shared>,
}

/// What the threads share.
struct Shared {
    destination: Destination,
    queue: Mutex<Queue>,
    /// The queue has changed.
    changed: Condvar,
    /// Of the queue, and whether the receiver is away: whoever has the queue may be writing to the
    /// disk, and measuring does not wait for it.
    known: Mutex<(queue::Counts, bool)>,
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

    /// Lets go of the queue, which has changed, and says what is to be said.
    fn leave(&self, mut queue: MutexGuard<'_, Queue>) {
        let news = queue.take_news();
        let known = (queue.counts(), queue.trouble().is_some());
        drop(queue);
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = known;
        self.changed.notify_all();
        for line in news {
            say!("fathom: {}: {line}", self.destination.name);
        }
    }
}

impl Delivery {
    /// Sends to a collector of fathom's.
    ///
    /// # Errors
    /// When a certificate cannot be read, and as [`Delivery::open`].
    pub(super) fn to_collector(
        url: &CollectorUrl,
        spool: Option<(&Path, u64)>,
    ) -> anyhow::Result<Self> {
        let client = Client::new(url)?;
        let destination = Destination {
            sink: "collector",
            name: url.to_string(),
            directory: url.directory(),
        };
        Self::open(client, destination, spool)
    }

    /// Begins with what the spool has: a directory, and how many bytes it may have for each
    /// receiver. A receiver that is away is none of its errors.
    ///
    /// # Errors
    /// When the spool cannot be opened, or the system has no threads left.
    pub(crate) fn open(
        receiver: impl Receiver,
        destination: Destination,
        spool: Option<(&Path, u64)>,
    ) -> anyhow::Result<Self> {
        let spool = spool
            .map(|(directory, bytes)| Spool::open(&directory.join(&destination.directory), bytes));
        let queue = Queue::new(spool.transpose().context("cannot open the spool")?)?;
        let shared = Arc::new(Shared {
            destination,
            queue: Mutex::new(queue),
            changed: Condvar::new(),
            known: Mutex::default(),
            may_wait: AtomicBool::new(false),
        });
        let filling = shared.clone();
        let run = move |incoming| fill(&filling, &incoming);
        let handover = Handover::start("spool", WAITING_BYTES, run);
        let handover = handover.context("cannot start a thread that keeps the spool")?;
        let sending = shared.clone();
        let second = thread::Builder::new().name("send".to_owned());
        second
            .spawn(move || send(&sending, receiver))
            .context("cannot start a thread that sends")?;
        Ok(Self { handover, shared })
    }
}

impl RecordSink for Delivery {
    #[cfg(feature = "live")]
    fn name(&self) -> &'static str {
        self.shared.destination.sink
    }

    #[cfg(feature = "live")]
    fn counts(&self) -> Counts {
        let known = self.shared.known.lock();
        let (counts, is_away) = *known.unwrap_or_else(PoisonError::into_inner);
        Counts {
            measured: vec![
                ("records", counts.acknowledged),
                ("lost", self.handover.lost_rows() + counts.lost),
            ],
            named: vec![("refused", counts.refused), ("away", u64::from(is_away))],
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
        self.shared.may_wait.store(may_wait, Ordering::Relaxed);
    }

    /// Waits as long as something is acknowledged. The spool keeps the rest.
    fn finish(&mut self) -> anyhow::Result<()> {
        self.may_wait(true);
        let Some(ended) = self.handover.finish() else {
            return Ok(());
        };
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
        let destination = &self.shared.destination.name;
        let lost = self.handover.lost_rows() + counts.lost;
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

/// Puts batches into the queue.
fn fill(shared: &Shared, incoming: &Incoming) {
    loop {
        let put = incoming.take(PERIOD, |batches| {
            let mut queue = shared.lock();
            for batch in batches {
                while shared.may_wait.load(Ordering::Relaxed)
                    && !queue.has_room()
                    && !queue.is_given_up(PATIENCE)
                {
                    queue = shared.wait(queue, PATIENCE / 10);
                }
                queue.put(&batch);
            }
        });
        if put == Err(RecvTimeoutError::Disconnected) {
            return;
        }
        let mut queue = shared.lock();
        queue.tick();
        shared.leave(queue);
    }
}

/// Sends what the queue has.
fn send(shared: &Shared, mut receiver: impl Receiver) {
    let mut backoff = FIRST_BACKOFF;
    let mut next = Instant::now();
    loop {
        let Some(body) = next_body(shared, next) else {
            return;
        };
        next = Instant::now() + receiver.pace();
        let sent = receiver.send(&body.bytes);
        let mut queue = shared.lock();
        match sent {
            Ok(taken) => {
                queue.acknowledge(&body, taken);
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
        shared.leave(queue);
    }
}

/// Waits for something to send: so long that it is worth it, unless it is the end. `None`: nothing
/// is sent any more.
fn next_body(shared: &Shared, not_before: Instant) -> Option<Body> {
    let mut queue = shared.lock();
    loop {
        if queue.has_ended() {
            return None;
        }
        let is_end = shared.may_wait.load(Ordering::Relaxed);
        if (is_end || queue.has_full_body() || Instant::now() >= not_before)
            && let Some(body) = queue.body()
        {
            return Some(body);
        }
        queue = shared.wait(queue, PERIOD);
    }
}

#[cfg(all(test, feature = "live"))]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::arguments::ExportTarget;

    /// Whoever has the queue may be writing to a slow disk.
    #[test]
    fn counts_do_not_wait_for_the_queue() {
        let Ok(ExportTarget::Collector(nobody)) = "http://127.0.0.1:9".parse() else {
            panic!("it is a collector");
        };
        let delivery = Delivery::to_collector(&nobody, None).unwrap();
        let shared = Arc::clone(&delivery.shared);
        let held = shared.lock();
        let (sender, receiver) = channel();
        thread::spawn(move || {
            sender.send(delivery.counts()).unwrap();
            delivery
        });
        assert_eq!(receiver.recv_timeout(PATIENCE).unwrap().get("lost"), 0);
        drop(held);
    }
}
