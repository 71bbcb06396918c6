//! The exchanges that wait for their answer, found by what an answer or an error tells.

use std::collections::BTreeMap;
use std::time::Duration;

use super::exchange::Exchange;
use crate::profile::native::dns_event;

/// Exchanges that wait for their answer at a time.
pub(super) const EXCHANGES_MAX: usize = 16_384;
/// The kernel may tell of an error twice, the first time without saying which.
pub(super) const ERROR_PATIENCE_NS: u64 = 100_000_000;

/// What ties an answer to its query. The question comes last: an answer need not repeat it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    socket: u64,
    remote: [u64; 2],
    remote_port: u16,
    id: u16,
    question: u32,
}

/// All exchanges that wait for their answer.
#[derive(Debug)]
pub(super) struct Waiting {
    timeout_ns: u64,
    exchanges: BTreeMap<Key, Exchange>,
    /// No exchange is waited for in vain before.
    next_end_ns: u64,
}

impl Waiting {
    /// Those that have waited `timeout` since they were last sent are over.
    pub(super) fn new(timeout: Duration) -> Self {
        Self {
            timeout_ns: u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX),
            exchanges: BTreeMap::new(),
            next_end_ns: u64::MAX,
        }
    }

    /// The exchange that a query repeats.
    pub(super) fn repeated(&mut self, query: &dns_event) -> Option<&mut Exchange> {
        self.exchanges.get_mut(&Key::of(query))
    }

    /// Is there room for another one?
    pub(super) fn has_room(&self) -> bool {
        self.exchanges.len() < EXCHANGES_MAX
    }

    /// Waits for the answer to a query.
    pub(super) fn add(&mut self, query: &dns_event, exchange: Exchange) {
        self.look_at(exchange.end_ns(self.timeout_ns));
        self.exchanges.insert(Key::of(query), exchange);
    }

    /// Takes the exchange that an answer ends.
    pub(super) fn take_answered(&mut self, answer: &dns_event) -> Option<Exchange> {
        let key = Key::of(answer);
        if answer.message.has_question != 0 {
            return self.exchanges.remove(&key);
        }
        let (found, _) = self.exchanges.range(key..=key.last()).next()?;
        let found = *found;
        self.exchanges.remove(&found)
    }

    /// An error of a socket that nobody knows: what it waits for from that resolver is over soon,
    /// unless it is asked again.
    pub(super) fn doubt(&mut self, error: &dns_event) {
        let (first, last) = Key::all_of(error);
        for (_, exchange) in self.exchanges.range_mut(first..=last) {
            exchange.error_ns.get_or_insert(error.time);
        }
        self.look_at(error.time.saturating_add(ERROR_PATIENCE_NS));
    }

    /// Takes all that a socket waits for from a resolver.
    pub(super) fn take_failed(&mut self, error: &dns_event) -> Vec<Exchange> {
        let (first, last) = Key::all_of(error);
        let keys = self.exchanges.range(first..=last).map(|(key, _)| *key);
        self.take(keys.collect())
    }

    /// Takes those that are waited for no more at this time, with the time of their end.
    pub(super) fn take_over(&mut self, now_ns: u64) -> Vec<(Exchange, u64)> {
        if now_ns < self.next_end_ns {
            return Vec::new();
        }
        let timeout_ns = self.timeout_ns;
        let end_ns = |exchange: &Exchange| exchange.end_ns(timeout_ns);
        let over = self.exchanges.iter();
        let over = over.filter(|(_, exchange)| end_ns(exchange) <= now_ns);
        let over = self.take(over.map(|(key, _)| *key).collect()).into_iter();
        self.next_end_ns = self
            .exchanges
            .values()
            .map(end_ns)
            .min()
            .unwrap_or(u64::MAX);
        over.map(|exchange| {
            let end_ns = end_ns(&exchange);
            (exchange, end_ns)
        })
        .collect()
    }

    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Exchange> {
        std::mem::take(&mut self.exchanges).into_values()
    }

    fn take(&mut self, keys: Vec<Key>) -> Vec<Exchange> {
        let taken = keys.into_iter();
        let taken = taken.filter_map(|key| self.exchanges.remove(&key));
        taken.collect()
    }

    fn look_at(&mut self, end_ns: u64) {
        self.next_end_ns = self.next_end_ns.min(end_ns);
    }
}

impl Exchange {
    /// When it is waited for no more.
    fn end_ns(&self, timeout_ns: u64) -> u64 {
        match self.error_ns {
            Some(error_ns) => error_ns.saturating_add(ERROR_PATIENCE_NS),
            None => self.last_ns.saturating_add(timeout_ns),
        }
    }
}

impl Key {
    fn of(event: &dns_event) -> Self {
        Self {
            socket: event.socket,
            remote: event.remote.words,
            remote_port: event.remote_port,
            id: event.message.id,
            question: event.message.question,
        }
    }

    /// The last one that differs in the question only.
    fn last(self) -> Self {
        Self {
            question: u32::MAX,
            ..self
        }
    }

    /// The first and the last one of a socket and a resolver.
    fn all_of(event: &dns_event) -> (Self, Self) {
        let first = Self {
            id: 0,
            question: 0,
            ..Self::of(event)
        };
        let last = Self {
            id: u16::MAX,
            ..first.last()
        };
        (first, last)
    }
}

#[cfg(test)]
mod tests {
    use super::super::events::{answer, error, query, query_of};
    use super::super::exchange::ProfileBuilder;
    use super::*;
    use crate::flow::flow_address_of;

    /// Waits at most 10 ns.
    fn waiting(queries: &[dns_event]) -> Waiting {
        let mut waiting = Waiting::new(Duration::from_nanos(10));
        for query in queries {
            waiting.add(query, ProfileBuilder::default().exchange(query, None));
        }
        waiting
    }

    #[test]
    fn what_ties_an_answer_to_its_query() {
        type Change = fn(&mut dns_event);
        let others: [Change; 5] = [
            |event| event.socket = 2,
            |event| event.message.id = 8,
            |event| event.message.question = 0,
            |event| event.remote = flow_address_of([192, 0, 2, 54].into()),
            |event| event.remote_port = 54,
        ];
        for change in others {
            let mut waiting = waiting(&[query(0)]);
            let mut other = answer(1, 0);
            change(&mut other);
            assert!(waiting.take_answered(&other).is_none());
            assert!(waiting.take_answered(&answer(2, 0)).is_some());
        }
    }

    #[test]
    fn an_answer_without_a_question_is_of_the_query_with_its_number() {
        let mut bare = answer(30, 1);
        bare.message.question = 0;
        bare.message.has_question = 0;
        let mut waiting = waiting(&[query(0)]);
        assert!(waiting.take_answered(&bare).is_some());
        assert!(waiting.take_answered(&bare).is_none());
    }

    #[test]
    fn an_error_is_of_all_that_its_socket_asked_that_resolver() {
        let mut second = query(1);
        second.message.id = 9;
        let mut elsewhere = query(1);
        elsewhere.remote_port = 54;
        let mut waiting = waiting(&[query(0), second, elsewhere, query_of(2, 2)]);
        let failed = waiting.take_failed(&error(6, libc::ECONNREFUSED));
        let ids: Vec<u16> = failed.iter().map(|exchange| exchange.id).collect();
        assert_eq!(ids, [7, 9]);
        assert_eq!(waiting.take_all().count(), 2);
    }

    #[test]
    fn what_was_sent_again_waits_longer() {
        let mut waiting = waiting(&[query(0), query_of(2, 1)]);
        if let Some(exchange) = waiting.repeated(&query(5)) {
            exchange.last_ns = 5;
        }
        assert!(waiting.take_over(10).is_empty());
        let ends = |over: Vec<(Exchange, u64)>| -> Vec<u64> {
            over.into_iter().map(|(_, end_ns)| end_ns).collect()
        };
        assert_eq!(ends(waiting.take_over(11)), [11]);
        assert_eq!(ends(waiting.take_over(20)), [15]);
    }
}
