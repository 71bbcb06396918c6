//! Records on their way to ClickHouse. A thread of its own sends them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use fathom_measure::Counts;
use fathom_record::{Record, Time};

use super::client::{Client, Failure};
use super::rows::Rows;
use super::schema::column_names;
use crate::failure::say;
use crate::output::RecordSink;

/// Records wait for others so long: the server makes a part of each batch.
const FLUSH: Duration = Duration::from_secs(1);
/// A batch that has so many is not added to.
const FULL_ROWS: u32 = 65_536;
/// Records that wait for the server take at most so much memory. What comes then is lost, and
/// counted.
const WAITING_BYTES: usize = 64 << 20;
/// Between attempts to send the same.
const PAUSE: Duration = Duration::from_millis(500);
/// What the server refuses so often it does not take.
const ATTEMPTS: u32 = 4;
/// How long the end waits for a server that is away.
const LAST_PATIENCE: Duration = Duration::from_secs(5);
/// Between looks at whether less waits.
const LOOK: Duration = Duration::from_millis(1);

/// Rows, and what names them.
struct Batch {
    rows: Rows,
    block: String,
}

/// What thread and sink both know.
#[derive(Default)]
struct Known {
    waiting_bytes: AtomicUsize,
    sent_rows: AtomicU64,
    lost_rows: AtomicU64,
}

/// Sends records.
pub(crate) struct ClickHouse {
    host: String,
    /// Of this process: no other batch has this name and number.
    begun: u64,
    next_block: u64,
    batches: Vec<Batch>,
    handed_over: Instant,
    known: Arc<Known>,
    /// Taken by the end.
    thread: Option<(Sender<Batch>, JoinHandle<()>)>,
    may_wait: bool,
}

impl ClickHouse {
    /// Begins to.
    ///
    /// # Errors
    /// When the server does not answer, or the system has no thread left.
    pub(crate) fn open(url: &str, host: &str) -> anyhow::Result<Self> {
        let client = Client::new(url)?;
        let found = client.run("SELECT 1").map_err(anyhow::Error::from);
        found.context("cannot keep records in ClickHouse")?;
        let known = Arc::new(Known::default());
        let (sender, receiver) = channel();
        let thread = Thread {
            client,
            receiver,
            known: known.clone(),
            waiting: VecDeque::new(),
            is_troubled: false,
        };
        let handle = thread::Builder::new()
            .name("clickhouse".to_owned())
            .spawn(move || thread.run())
            .context("cannot start a thread that sends records")?;
        Ok(Self {
            host: host.to_owned(),
            begun: Time::now().0,
            next_block: 0,
            batches: Vec::new(),
            handed_over: Instant::now(),
            known,
            thread: Some((sender, handle)),
            may_wait: false,
        })
    }

    fn hand_over(&mut self) {
        self.handed_over = Instant::now();
        let Some((sender, thread)) = &self.thread else {
            return;
        };
        for batch in self.batches.drain(..) {
            let bytes = batch.rows.bytes.len();
            let waiting = &self.known.waiting_bytes;
            let is_full = || waiting.load(Ordering::Relaxed) + bytes > WAITING_BYTES;
            while self.may_wait && is_full() && !thread.is_finished() {
                thread::sleep(LOOK);
            }
            let rows = u64::from(batch.rows.count);
            if is_full() {
                self.known.lost_rows.fetch_add(rows, Ordering::Relaxed);
                continue;
            }
            waiting.fetch_add(bytes, Ordering::Relaxed);
            if sender.send(batch).is_err() {
                self.known.lost_rows.fetch_add(rows, Ordering::Relaxed);
            }
        }
    }
}

impl RecordSink for ClickHouse {
    fn put(&mut self, record: &dyn Record) {
        let schema = record.schema();
        let is_same = |batch: &Batch| std::ptr::eq(batch.rows.schema, schema);
        let index = self.batches.iter().position(is_same).unwrap_or_else(|| {
            self.next_block += 1;
            self.batches.push(Batch {
                rows: Rows::new(schema),
                block: format!("{}-{}", self.begun, self.next_block),
            });
            self.batches.len() - 1
        });
        let Batch { rows, block } = &mut self.batches[index];
        rows.put(record, &self.host, block);
        if rows.count >= FULL_ROWS {
            self.hand_over();
        }
    }

    fn tick(&mut self) {
        if self.handed_over.elapsed() >= FLUSH {
            self.hand_over();
        }
    }

    fn name(&self) -> &'static str {
        "clickhouse"
    }

    fn counts(&self) -> Counts {
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        Counts {
            measured: vec![
                ("records", count(&self.known.sent_rows)),
                ("lost", count(&self.known.lost_rows)),
            ],
            named: Vec::new(),
        }
    }

    fn is_behind(&self) -> bool {
        self.known.waiting_bytes.load(Ordering::Relaxed) > WAITING_BYTES / 4
    }

    fn may_wait(&mut self, may_wait: bool) {
        self.may_wait = may_wait;
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        self.may_wait = true;
        self.hand_over();
        let Some((sender, thread)) = self.thread.take() else {
            return Ok(());
        };
        drop(sender);
        let ended = thread.join();
        ended.map_err(|_| anyhow!("the thread that sends to ClickHouse has failed"))?;
        let sent = self.known.sent_rows.load(Ordering::Relaxed);
        let lost = self.known.lost_rows.load(Ordering::Relaxed);
        say!("ClickHouse: {sent} records, {lost} lost");
        if lost > 0 {
            return Err(anyhow!(
                "{lost} records are not in ClickHouse: it was away, too slow, or refused them"
            ));
        }
        Ok(())
    }
}

struct Thread {
    client: Client,
    receiver: Receiver<Batch>,
    known: Arc<Known>,
    waiting: VecDeque<Batch>,
    /// It has been said.
    is_troubled: bool,
}

impl Thread {
    fn run(mut self) {
        let mut refusals = 0;
        let mut end = None;
        loop {
            if end.is_none() && !self.receive() {
                end = Some(Instant::now() + LAST_PATIENCE);
            }
            let Some(batch) = self.waiting.front() else {
                if end.is_some() {
                    return;
                }
                continue;
            };
            match self.insert(batch) {
                Ok(()) => {
                    refusals = 0;
                    self.tell(None);
                    self.leave(true);
                }
                Err(failure) => {
                    refusals += u32::from(matches!(failure, Failure::Refused(_)));
                    let (Failure::Away(why) | Failure::Refused(why)) = failure;
                    self.tell(Some(&why));
                    if refusals >= ATTEMPTS || end.is_some_and(|end| Instant::now() > end) {
                        refusals = 0;
                        self.leave(false);
                    } else {
                        thread::sleep(PAUSE);
                    }
                }
            }
        }
    }

    /// Takes what has come; waits for something if nothing is to be sent. `false`: no more comes.
    fn receive(&mut self) -> bool {
        if self.waiting.is_empty() {
            match self.receiver.recv_timeout(FLUSH) {
                Ok(batch) => self.waiting.push_back(batch),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
        loop {
            match self.receiver.try_recv() {
                Ok(batch) => self.waiting.push_back(batch),
                Err(error) => return error == TryRecvError::Empty,
            }
        }
    }

    fn insert(&self, batch: &Batch) -> Result<(), Failure> {
        let schema = batch.rows.schema;
        let statement = format!(
            "INSERT INTO {}.{} ({}) FORMAT RowBinary",
            self.client.database,
            schema.kind,
            column_names(schema)
        );
        self.client.insert(&statement, &batch.rows.bytes)
    }

    /// The first of those that wait is done with.
    fn leave(&mut self, is_sent: bool) {
        let Some(batch) = self.waiting.pop_front() else {
            return;
        };
        let rows = u64::from(batch.rows.count);
        let bytes = batch.rows.bytes.len();
        self.known.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
        if is_sent {
            self.known.sent_rows.fetch_add(rows, Ordering::Relaxed);
        } else {
            self.known.lost_rows.fetch_add(rows, Ordering::Relaxed);
        }
    }

    /// Says once when something fails, and once when it does not any more.
    fn tell(&mut self, trouble: Option<&str>) {
        match trouble {
            Some(why) if !self.is_troubled => {
                self.is_troubled = true;
                say!("fathom: ClickHouse does not take records: {why}; measuring goes on");
            }
            None if self.is_troubled => {
                self.is_troubled = false;
                say!("fathom: ClickHouse takes records again");
            }
            _ => {}
        }
    }
}
