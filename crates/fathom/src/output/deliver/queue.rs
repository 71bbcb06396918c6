//! What waits for a receiver: in memory, and when that takes too long or too much, in the spool.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use fathom_store::{Batch, Number, encode};

use super::receiver::Taken;
use super::spool::Spool;

/// What waits in memory, where there is a spool behind it, and where there is none.
const MEMORY_BYTES: usize = 8 << 20;
const MEMORY_ALONE_BYTES: usize = 64 << 20;
/// What waits longer goes into the spool.
const MEMORY_TIME: Duration = Duration::from_secs(2);
/// Between two syncs of the spool.
const SYNC: Duration = Duration::from_secs(1);
/// About so much is sent at once.
const BODY_BYTES: usize = 1 << 20;

/// Batches of records in the order in which they came.
pub(super) struct Queue {
    /// Whose sequence this is.
    id: u128,
    sequence: u64,
    /// Behind what is in the spool.
    memory: VecDeque<Waiting>,
    memory_bytes: usize,
    spool: Option<Spool>,
    synced: Instant,
    counts: Counts,
    /// Of the batches of this process.
    last_acknowledged: u64,
    /// When something was acknowledged last, or the first of what waits came.
    progressed: Instant,
    /// Why nothing is acknowledged.
    trouble: Option<String>,
    is_trouble_told: bool,
    is_loss_told: bool,
    has_ended: bool,
    news: Vec<String>,
}

struct Waiting {
    number: Number,
    bytes: Vec<u8>,
    since: Instant,
}

/// What became of records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) acknowledged: u64,
    /// The receiver will never take them.
    pub(super) refused: u64,
    /// There was no room for them.
    pub(super) lost: u64,
}

/// Batches that are sent together.
pub(super) struct Body {
    pub(super) bytes: Vec<u8>,
    /// Which ones.
    pub(super) numbers: Vec<Number>,
    is_of_spool: bool,
}

/// What is left at the end.
pub(super) struct Left {
    /// The spool, if it has something.
    pub(super) spool: Option<PathBuf>,
}

impl Queue {
    /// What a spool has.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub(super) fn new(mut spool: Option<Spool>) -> anyhow::Result<Self> {
        let mut id = [0; 16];
        let random = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut id));
        random.context("cannot read /dev/urandom")?;
        let news = spool.as_mut().map(Spool::take_news).unwrap_or_default();
        Ok(Self {
            id: u128::from_le_bytes(id),
            sequence: 0,
            memory: VecDeque::new(),
            memory_bytes: 0,
            spool,
            synced: Instant::now(),
            counts: Counts::default(),
            last_acknowledged: 0,
            progressed: Instant::now(),
            trouble: None,
            is_trouble_told: false,
            is_loss_told: false,
            has_ended: false,
            news,
        })
    }

    /// Takes a batch, or counts what is lost where there is no room.
    pub(super) fn put(&mut self, batch: &Batch) {
        let rows = batch.rows.num_rows() as u64;
        if !self.has_room() {
            return self.lose(rows, "there is no more room for records that wait");
        }
        let number = Number {
            spool: self.id,
            sequence: self.sequence + 1,
            rows: rows as u32,
        };
        let bytes = match encode(number, batch) {
            Ok(bytes) => bytes,
            Err(error) => return self.lose(rows, &error.to_string()),
        };
        self.sequence += 1;
        if self.is_empty() {
            self.progressed = Instant::now();
        }
        self.memory_bytes += bytes.len();
        self.memory.push_back(Waiting {
            number,
            bytes,
            since: Instant::now(),
        });
        // Behind what is in the spool already, or where memory is full.
        let is_spooling = self.spool.as_ref().is_some_and(|spool| !spool.is_empty());
        if is_spooling || self.memory_bytes > MEMORY_BYTES {
            self.spill();
        }
    }

    /// Is there room for a batch? Where there is a spool, memory only helps it out.
    pub(super) fn has_room(&self) -> bool {
        let most = match &self.spool {
            Some(_) => 2 * MEMORY_BYTES,
            None => MEMORY_ALONE_BYTES,
        };
        self.memory_bytes < most
    }

    fn lose(&mut self, rows: u64, why: &str) {
        self.counts.lost += rows;
        if !self.is_loss_told {
            self.is_loss_told = true;
            self.news.push(format!("records are lost: {why}"));
        }
    }

    /// What is in memory goes into the spool, as far as that has room.
    fn spill(&mut self) {
        let Some(spool) = &mut self.spool else { return };
        while let Some(first) = self.memory.front() {
            if !spool.append(&first.bytes) {
                break;
            }
            self.memory_bytes -= first.bytes.len();
            self.memory.pop_front();
        }
        self.news.extend(spool.take_news());
    }

    /// Does what is due by the clock.
    pub(super) fn tick(&mut self) {
        let oldest = self.memory.front().map(|first| first.since.elapsed());
        if oldest.is_some_and(|waited| waited > MEMORY_TIME) {
            self.spill();
        }
        if self.synced.elapsed() >= SYNC
            && let Some(spool) = &mut self.spool
        {
            self.synced = Instant::now();
            spool.sync();
            self.news.extend(spool.take_news());
        }
    }

    /// Is there so much that more would not be sent with it?
    pub(super) fn has_full_body(&self) -> bool {
        let is_spooling = self.spool.as_ref().is_some_and(|spool| !spool.is_empty());
        is_spooling || self.memory_bytes >= BODY_BYTES
    }

    /// What has waited longest, to be sent.
    pub(super) fn body(&mut self) -> Option<Body> {
        if let Some(spool) = &mut self.spool
            && let Some((bytes, numbers)) = spool.first(BODY_BYTES)
        {
            return Some(Body {
                bytes,
                numbers,
                is_of_spool: true,
            });
        }
        self.news.extend(
            self.spool
                .as_mut()
                .map(Spool::take_news)
                .unwrap_or_default(),
        );
        let (mut bytes, mut numbers) = (Vec::new(), Vec::new());
        for waiting in &self.memory {
            if !bytes.is_empty() && bytes.len() + waiting.bytes.len() > BODY_BYTES {
                break;
            }
            bytes.extend_from_slice(&waiting.bytes);
            numbers.push(waiting.number);
        }
        let some = !numbers.is_empty();
        some.then_some(Body {
            bytes,
            numbers,
            is_of_spool: false,
        })
    }

    /// The receiver has these for sure, but for some that it never takes.
    pub(super) fn acknowledge(&mut self, body: &Body, taken: Taken) {
        // What went into the spool while it was sent is acknowledged a second time.
        let (own, last) = (self.id, self.last_acknowledged);
        let is_new = |number: &&Number| number.spool != own || number.sequence > last;
        let rows = body
            .numbers
            .iter()
            .filter(is_new)
            .map(|it| u64::from(it.rows));
        let rows = rows.sum::<u64>();
        let refused = taken.refused_rows.min(rows);
        self.counts.refused += refused;
        self.counts.acknowledged += rows - refused;
        let own = body.numbers.iter().filter(|number| number.spool == own);
        self.last_acknowledged = own.map(|it| it.sequence).fold(last, u64::max);
        self.news.extend(taken.words);
        if self.is_trouble_told {
            self.news.push("it takes records again".to_owned());
        }
        (self.trouble, self.is_trouble_told, self.is_loss_told) = (None, false, false);
        self.remove(body);
    }

    /// The receiver will never take these.
    pub(super) fn refuse(&mut self, body: &Body, reason: String) {
        let rows = rows_of(body);
        self.counts.refused += rows;
        self.news
            .push(format!("{rows} records are refused: {reason}"));
        self.trouble = Some(reason);
        self.remove(body);
    }

    fn remove(&mut self, body: &Body) {
        self.progressed = Instant::now();
        if body.is_of_spool {
            if let Some(spool) = &mut self.spool {
                spool.release(body.bytes.len());
            }
            return;
        }
        // What went into the spool meanwhile is sent once more, and left out by the receiver.
        let Some(last) = body.numbers.last() else {
            return;
        };
        while let Some(first) = self.memory.front() {
            if first.number.sequence > last.sequence {
                break;
            }
            self.memory_bytes -= first.bytes.len();
            self.memory.pop_front();
        }
    }

    /// Nothing is acknowledged at present. `is_to_be_told`: it is not the first time in a row.
    pub(super) fn set_trouble(&mut self, reason: String, is_to_be_told: bool) {
        if is_to_be_told && !self.is_trouble_told {
            self.is_trouble_told = true;
            self.news.push(format!("{reason}; records wait for it"));
        }
        self.trouble = Some(reason);
    }

    pub(super) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.memory.is_empty() && self.spool.as_ref().is_none_or(Spool::is_empty)
    }

    /// Has nothing been acknowledged for so long? With a spool nobody waits for a receiver that is
    /// known to be away.
    pub(super) fn is_given_up(&self, patience: Duration) -> bool {
        let is_away = self.spool.is_some() && self.is_trouble_told;
        is_away || self.progressed.elapsed() > patience
    }

    /// Nothing is sent any more. What is in memory goes into the spool, or is lost.
    pub(super) fn end(&mut self) -> Left {
        self.has_ended = true;
        self.spill();
        let left: u64 = self
            .memory
            .drain(..)
            .map(|one| u64::from(one.number.rows))
            .sum();
        self.counts.lost += left;
        let spool = self.spool.as_mut().filter(|spool| !spool.is_empty());
        let spool = spool.map(|spool| {
            spool.sync();
            spool.directory().to_owned()
        });
        Left { spool }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    /// What is to be said, once.
    pub(super) fn take_news(&mut self) -> Vec<String> {
        std::mem::take(&mut self.news)
    }
}

fn rows_of(body: &Body) -> u64 {
    body.numbers
        .iter()
        .map(|number| u64::from(number.rows))
        .sum()
}
