//! What every measurement on this host does while it runs, so that several run in one process.

use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fathom_record::{Nanoseconds, Record, Time};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::kernel::Ring;
use crate::{Counts, Error};

/// Takes records, one after the other.
pub type Take<'a> = dyn FnMut(&dyn Record) + 'a;

/// Of most measurements; interfaces that go or come wait as long until they are looked at.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_millis(50);

/// A measurement that runs. Everything it attached goes when it is dropped, or when the process
/// ends in whatever way.
pub trait Measurement {
    /// The name of its command.
    fn name(&self) -> &'static str;

    /// How its programs are attached, a line each, for people.
    fn describe(&self) -> Vec<String>;

    /// Becomes readable when there is something to hand on; `None`: only the clock tells.
    fn events(&self) -> Option<BorrowedFd<'_>>;

    /// The rings of its events: while it cannot be polled, [`Ring::collect`] keeps what comes.
    fn rings(&self) -> Vec<Arc<Ring>> {
        Vec::new()
    }

    /// How long it may go without [`Measurement::poll`]: so long may a record wait.
    fn longest_wait(&self) -> Duration {
        LONGEST_WAIT
    }

    /// Hands on what has come, and does what is due by the clock. Does not wait.
    ///
    /// # Errors
    /// [`Error::Kernel`] when a ring or a table cannot be read.
    fn poll(&mut self, take: &mut Take<'_>) -> Result<(), Error>;

    /// Ends an interval of this `length` at `time` and begins another, where records are put
    /// together by interval: for a portion of the flows, and with the last one for all that is not
    /// put together by flow.
    ///
    /// # Errors
    /// As [`Measurement::poll`].
    fn end_interval(
        &mut self,
        _portion: Portion,
        _time: Time,
        _length: Nanoseconds,
        _take: &mut Take<'_>,
    ) -> Result<Option<Box<dyn Interval>>, Error> {
        Ok(None)
    }

    /// Lets go of interfaces that have gone, and takes those that have come. Does not wait. Returns
    /// what people are to be told.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the kernel does not tell of its interfaces any more.
    fn follow(&mut self) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }

    /// Has it nothing more to measure?
    fn is_over(&mut self) -> bool {
        false
    }

    /// The end: measures nothing more, and hands on what is left.
    ///
    /// # Errors
    /// As [`Measurement::poll`].
    fn finish(&mut self, take: &mut Take<'_>) -> Result<(), Error>;

    /// What was counted since the start.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the counters cannot be read.
    fn counts(&self) -> Result<Counts, Error>;
}

/// A part of all flows, by their places in the table. The intervals of very many flows end one
/// portion after the other: else all their records would wait in memory at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Portion {
    index: u32,
    count: u32,
}

impl Portion {
    /// All flows.
    pub const ALL: Self = Self { index: 0, count: 1 };

    /// Number `index` of `count`, below which it is.
    pub const fn new(index: u32, count: u32) -> Self {
        Self { index, count }
    }

    /// Is it the last of a turn?
    pub const fn is_last(self) -> bool {
        self.index + 1 == self.count
    }

    /// Its slots, of so many.
    pub(crate) fn of(self, slots: u32) -> Range<u32> {
        let begin_of =
            |index: u32| (u64::from(slots) * u64::from(index) / u64::from(self.count)) as u32;
        begin_of(self.index)..begin_of(self.index + 1)
    }
}

/// The records of an interval that is over. There may be very many: each is made when it leaves.
pub trait Interval {
    /// How many have not left.
    fn left(&self) -> usize;

    /// Hands so many on.
    fn leave(&mut self, count: usize, take: &mut Take<'_>);
}

impl<I: ExactSizeIterator<Item: Record>> Interval for I {
    fn left(&self) -> usize {
        self.len()
    }

    fn leave(&mut self, count: usize, take: &mut Take<'_>) {
        self.take(count).for_each(|record| take(&record));
    }
}

/// Waits until one of them has something to hand on, at most for `timeout`.
///
/// # Errors
/// [`Error::Kernel`] when the kernel does not tell.
pub fn wait_for(measurements: &[Box<dyn Measurement>], timeout: Duration) -> Result<(), Error> {
    let longest = measurements.iter().map(|one| one.longest_wait()).min();
    let timeout = longest.map_or(timeout, |longest| timeout.min(longest));
    let mut events: Vec<_> = measurements
        .iter()
        .filter_map(|one| one.events())
        .map(|events| PollFd::new(events, PollFlags::POLLIN))
        .collect();
    // Rounded up: what is due in less than a millisecond is not looked for a thousand times.
    let timeout = timeout.saturating_add(Duration::from_micros(999));
    let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
    match poll(&mut events, timeout) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(Error::kernel(
            "wait for events",
            std::io::Error::from(error),
        )),
    }
}

/// Something to do again and again.
pub(crate) struct Ticker {
    period: Duration,
    next: Instant,
}

impl Ticker {
    /// From now on.
    pub(crate) fn new(period: Duration) -> Self {
        Self {
            period,
            next: Instant::now() + period,
        }
    }

    /// It was done now, for another reason.
    pub(crate) fn restart(&mut self) {
        self.next = Instant::now() + self.period;
    }

    /// Is it time? Says so once a period.
    pub(crate) fn is_due(&mut self) -> bool {
        let is_due = Instant::now() >= self.next;
        if is_due {
            self.restart();
        }
        is_due
    }
}
