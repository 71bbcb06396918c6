//! What a collector gets next: templates before data and again when due, numbers of the stream, and
//! what waits while it is away.

use std::collections::VecDeque;
use std::time::Duration;

use fathom_record::Time;

use crate::Outgoing;
use crate::wire::Encoded;

/// When templates are sent again where messages may be lost (RFC 7011, section 8.4): at whichever
/// comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refresh {
    /// After this time; by default 10 min.
    pub interval: Duration,
    /// After so many messages of data; by default 10000.
    pub messages: u32,
}

/// So often is a template sent again at the end, where messages may be lost: the number of its
/// message tells a collector what was sent before, so that it misses the last records too.
const FAREWELLS: u32 = 2;
/// The time between two of these: a collector that had no room may have some then.
const FAREWELL_PAUSE_NS: u64 = 100_000_000;

impl Default for Refresh {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(600),
            messages: 10_000,
        }
    }
}

/// What happened to messages on their way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Messages sent, with templates or data.
    pub messages: u64,
    /// Data records in them, those of options too.
    pub records: u64,
    /// Messages of data that never left: the spool was full, or the end came first.
    pub dropped_messages: u64,
    /// Records in those.
    pub dropped_records: u64,
    /// Connections made after the first one.
    pub reconnects: u64,
    /// Attempts to connect or to send that failed.
    pub failures: u64,
}

/// The messages for one collector, and what it got already. It does no I/O and reads no clock.
#[derive(Debug)]
pub struct OutgoingQueue {
    /// `None` where nothing sent is ever lost on the way.
    refresh: Option<Refresh>,
    spool_limit_bytes: usize,
    announcements: Vec<Encoded>,
    /// How many of them the collector has got since it last might have forgotten.
    announced: usize,
    /// Data that waits.
    spool: VecDeque<Encoded>,
    spool_bytes: usize,
    /// The message that is being sent, taken out of the others: they may change meanwhile.
    in_flight: Option<Outgoing>,
    /// Records sent in this stream.
    sequence: u32,
    refreshed: Option<Time>,
    since_refresh: u32,
    /// How often a template is still sent at the end, and when at the earliest.
    farewell: Option<(u32, Time)>,
    streams: u64,
    counters: Counters,
}

impl OutgoingQueue {
    /// A queue whose messages that wait take `spool_limit_bytes` at most.
    pub fn new(refresh: Option<Refresh>, spool_limit_bytes: usize) -> Self {
        Self {
            refresh,
            spool_limit_bytes,
            announcements: Vec::new(),
            announced: 0,
            spool: VecDeque::new(),
            spool_bytes: 0,
            in_flight: None,
            sequence: 0,
            refreshed: None,
            since_refresh: 0,
            farewell: None,
            streams: 0,
            counters: Counters::default(),
        }
    }

    /// Takes a message; when too much waits, the oldest goes.
    pub fn push(&mut self, outgoing: Outgoing) {
        match outgoing {
            Outgoing::Announcement(message) => self.announcements.push(message),
            Outgoing::Data(message) => {
                self.spool_bytes += message.bytes.len();
                self.spool.push_back(message);
                while self.spool_bytes > self.spool_limit_bytes && self.drop_oldest() {}
            }
        }
    }

    /// A connection was made: the collector knows nothing, and numbers begin at zero (RFC 7011,
    /// section 3.1).
    pub fn connected(&mut self) {
        if let Some(Outgoing::Data(message)) = self.in_flight.take() {
            self.spool_bytes += message.bytes.len();
            self.spool.push_front(message);
        }
        self.announced = 0;
        self.sequence = 0;
        self.refreshed = None;
        self.counters.reconnects += u64::from(self.streams > 0);
        self.streams += 1;
    }

    /// Nothing is pushed any more: what was sent is told once it is, where it may have been lost.
    pub fn end(&mut self, now: Time) {
        if self.refresh.is_some() && self.farewell.is_none() {
            self.farewell = Some((FAREWELLS, now));
        }
    }

    /// Is what was sent to be told yet?
    pub fn has_farewell(&self) -> bool {
        self.farewell.is_some_and(|(left, _)| left > 0) && self.template().is_some()
    }

    /// An attempt to connect or to send failed.
    pub fn failed(&mut self) {
        self.counters.failures += 1;
    }

    /// The message to send now, complete; it stays the next one until [`OutgoingQueue::sent`].
    pub fn next(&mut self, now: Time) -> Option<&Encoded> {
        if self.in_flight.is_none() {
            self.refresh_if_due(now);
            self.in_flight = Some(match self.announcements.get(self.announced) {
                Some(announcement) => Outgoing::Announcement(announcement.clone()),
                None => match self.take_oldest() {
                    Some(data) => Outgoing::Data(data),
                    None => Outgoing::Announcement(self.take_farewell(now)?),
                },
            });
        }
        let (Outgoing::Announcement(message) | Outgoing::Data(message)) =
            self.in_flight.as_mut()?;
        message.stamp((now.0 / 1_000_000_000) as u32, self.sequence);
        Some(message)
    }

    /// The message that [`OutgoingQueue::next`] gave is on its way.
    pub fn sent(&mut self, now: Time) {
        let records = match self.in_flight.take() {
            Some(Outgoing::Announcement(message)) => {
                self.announced = self.announcements.len().min(self.announced + 1);
                self.refreshed.get_or_insert(now);
                message.records
            }
            Some(Outgoing::Data(message)) => {
                self.since_refresh = self.since_refresh.saturating_add(1);
                message.records
            }
            None => return,
        };
        self.sequence = self.sequence.wrapping_add(records);
        self.counters.messages += 1;
        self.counters.records += u64::from(records);
    }

    /// Bytes of data that wait.
    pub fn waiting_bytes(&self) -> usize {
        self.spool_bytes
    }

    /// When templates are due again, if nothing else is sent before.
    pub fn due(&self) -> Option<Time> {
        if let Some((left, due)) = self.farewell {
            return (left > 0).then_some(due);
        }
        self.refresh_due()
    }

    fn refresh_due(&self) -> Option<Time> {
        let (refresh, refreshed) = (self.refresh?, self.refreshed?);
        let interval_ns = u64::try_from(refresh.interval.as_nanos()).unwrap_or(u64::MAX);
        Some(Time(refreshed.0.saturating_add(interval_ns)))
    }

    /// Gives up what waits, and counts it.
    pub fn abandon(&mut self) {
        if let Some(Outgoing::Data(message)) = self.in_flight.take() {
            self.count_dropped(&message);
        }
        while self.drop_oldest() {}
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    fn refresh_if_due(&mut self, now: Time) {
        let Some(refresh) = self.refresh else {
            return;
        };
        // A clock that was set back would have them wait for longer.
        let was_set_back = self.refreshed.is_some_and(|refreshed| now < refreshed);
        let is_due = self.since_refresh >= refresh.messages
            || was_set_back
            || self.refresh_due().is_some_and(|due| now >= due);
        if is_due && self.announced == self.announcements.len() {
            self.announced = 0;
            self.since_refresh = 0;
            self.refreshed = None;
        }
    }

    /// Something without records, if that is due.
    fn take_farewell(&mut self, now: Time) -> Option<Encoded> {
        let (left, _) = self
            .farewell
            .filter(|&(left, due)| left > 0 && now >= due)?;
        let next = Time(now.0.saturating_add(FAREWELL_PAUSE_NS));
        self.farewell = Some((left - 1, next));
        self.template().cloned()
    }

    fn template(&self) -> Option<&Encoded> {
        self.announcements
            .iter()
            .find(|message| message.records == 0)
    }

    fn take_oldest(&mut self) -> Option<Encoded> {
        let message = self.spool.pop_front()?;
        self.spool_bytes -= message.bytes.len();
        Some(message)
    }

    fn drop_oldest(&mut self) -> bool {
        let oldest = self.take_oldest();
        if let Some(message) = &oldest {
            self.count_dropped(message);
        }
        oldest.is_some()
    }

    fn count_dropped(&mut self, message: &Encoded) {
        self.counters.dropped_messages += 1;
        self.counters.dropped_records += u64::from(message.records);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{FieldSpecifier, Message, MessageWriter, Template};

    fn message(records: u32) -> Encoded {
        let mut writer = MessageWriter::new(1, 1232);
        for _ in 0..records {
            writer.record(300, &[7; 10]);
        }
        writer.finish().unwrap()
    }

    fn template() -> Encoded {
        let mut writer = MessageWriter::new(1, 1232);
        writer.template(&Template {
            id: 300,
            scope_fields: 0,
            fields: vec![FieldSpecifier {
                enterprise: None,
                element: 1,
                length: 8,
            }],
        });
        writer.finish().unwrap()
    }

    /// Sends all there is, and gives (sequence, records) of each message.
    fn drain(queue: &mut OutgoingQueue, now: Time) -> Vec<(u32, u32)> {
        let mut sent = Vec::new();
        while let Some(next) = queue.next(now) {
            let (message, _) = Message::split(&next.bytes).unwrap();
            sent.push((message.header.sequence, next.records));
            queue.sent(now);
        }
        sent
    }

    const START: Time = Time(1_795_000_000_000_000_000);

    fn after(seconds: u64) -> Time {
        Time(START.0 + seconds * 1_000_000_000)
    }

    #[test]
    fn every_stream_counts_from_zero_and_begins_with_templates() {
        let mut queue = OutgoingQueue::new(None, 1 << 20);
        queue.push(Outgoing::Data(message(3)));
        queue.push(Outgoing::Announcement(message(2)));
        queue.push(Outgoing::Data(message(4)));
        queue.connected();
        assert_eq!(drain(&mut queue, START), [(0, 2), (2, 3), (5, 4)]);
        queue.push(Outgoing::Data(message(1)));
        queue.connected();
        assert_eq!(drain(&mut queue, after(9_999)), [(0, 2), (2, 1)]);
        assert_eq!(queue.due(), None);
        let counters = queue.counters();
        assert_eq!((counters.messages, counters.records), (5, 12));
        assert_eq!(counters.reconnects, 1);
    }

    #[test]
    fn a_message_that_failed_is_sent_again() {
        let mut queue = OutgoingQueue::new(None, 1 << 20);
        queue.connected();
        queue.push(Outgoing::Data(message(1)));
        assert!(queue.next(START).is_some());
        queue.failed();
        queue.connected();
        assert_eq!(drain(&mut queue, START), [(0, 1)]);
        assert_eq!(queue.counters().failures, 1);
    }

    #[test]
    fn templates_are_refreshed_by_time_and_by_messages() {
        let refresh = Refresh {
            interval: Duration::from_secs(600),
            messages: 3,
        };
        let mut queue = OutgoingQueue::new(Some(refresh), 1 << 20);
        queue.connected();
        queue.push(Outgoing::Announcement(message(1)));
        assert_eq!(drain(&mut queue, START).len(), 1);
        assert_eq!(queue.due(), Some(after(600)));
        assert_eq!(drain(&mut queue, after(599)).len(), 0);
        assert_eq!(drain(&mut queue, after(600)), [(1, 1)]);
        for _ in 0..4 {
            queue.push(Outgoing::Data(message(1)));
        }
        // Three of data, the template again, the fourth.
        assert_eq!(drain(&mut queue, after(601)).len(), 5);
        // The clock was set back.
        assert_eq!(drain(&mut queue, START).len(), 1);
        assert_eq!(drain(&mut queue, after(599)).len(), 0);
        assert_eq!(drain(&mut queue, after(600)).len(), 1);
    }

    #[test]
    fn the_end_tells_what_was_sent_twice() {
        let refresh = Some(Refresh::default());
        let mut queue = OutgoingQueue::new(refresh, 1 << 20);
        queue.connected();
        queue.push(Outgoing::Announcement(template()));
        queue.push(Outgoing::Data(message(3)));
        queue.end(START);
        assert_eq!(drain(&mut queue, START), [(0, 0), (0, 3), (3, 0)]);
        assert!(queue.has_farewell());
        let due = queue.due().unwrap();
        assert_eq!(drain(&mut queue, Time(due.0 - 1)), []);
        assert_eq!(drain(&mut queue, due), [(3, 0)]);
        assert!(!queue.has_farewell());
        // Nothing is lost on a connection.
        let mut queue = OutgoingQueue::new(None, 1 << 20);
        queue.connected();
        queue.push(Outgoing::Announcement(template()));
        queue.end(START);
        assert_eq!(drain(&mut queue, START), [(0, 0)]);
    }

    #[test]
    fn what_is_being_sent_stays_itself() {
        let mut queue = OutgoingQueue::new(None, message(2).bytes.len());
        queue.connected();
        queue.push(Outgoing::Data(message(1)));
        assert_eq!(queue.next(START).unwrap().records, 1);
        queue.push(Outgoing::Announcement(message(4)));
        queue.push(Outgoing::Data(message(2)));
        queue.sent(START);
        assert_eq!(drain(&mut queue, START), [(1, 4), (5, 2)]);
        assert_eq!(queue.counters().dropped_records, 0);
    }

    #[test]
    fn a_full_spool_loses_the_oldest() {
        let each = message(1).bytes.len();
        let mut queue = OutgoingQueue::new(None, 2 * each);
        for records in 1..=3 {
            queue.push(Outgoing::Data(Encoded {
                records,
                ..message(1)
            }));
        }
        let counters = queue.counters();
        assert_eq!(
            (counters.dropped_messages, counters.dropped_records),
            (1, 1)
        );
        queue.connected();
        assert_eq!(drain(&mut queue, START), [(0, 2), (2, 3)]);
        queue.push(Outgoing::Data(message(5)));
        queue.abandon();
        assert_eq!(queue.counters().dropped_records, 6);
    }
}
