//! From queries and answers to exchanges: which query an answer is of, and which have waited too long.

use std::collections::BTreeMap;
use std::time::Duration;

use super::exchange::{End, Exchange, Maker};
use crate::live::read_prefix;
use crate::native::{self, dns_event};
use crate::profile::State;
use crate::profile::connections::Report;
use crate::profile::ending::ending;

/// Exchanges that wait for their answer at a time.
const EXCHANGES_MAX: usize = 16_384;
/// The kernel may tell of an error twice, the first time without saying which.
const ERROR_PATIENCE_NS: u64 = 100_000_000;
/// The state of a socket whose error ended something that was under way (`TCP_ESTABLISHED` of the kernel).
const ESTABLISHED: u8 = 1;

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
pub(super) struct Exchanges {
    timeout_ns: u64,
    waiting: BTreeMap<Key, Exchange>,
    /// No exchange times out before.
    next_timeout_ns: u64,
    /// What is written into records.
    maker: Maker,
    /// Messages that the kernel had lost when last asked, and up to when one may have been lost.
    lost: u64,
    lost_until_ns: Option<u64>,
    /// Queries that there was no room for.
    pub(super) refused: u64,
    /// Answers to nothing that waits: late ones, repeated ones, those of queries before the start.
    pub(super) unmatched: u64,
}

impl Exchanges {
    /// Those that have waited `timeout` since they were last sent are over.
    pub(super) fn new(timeout: Duration) -> Self {
        Self {
            timeout_ns: u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX),
            waiting: BTreeMap::new(),
            next_timeout_ns: u64::MAX,
            maker: Maker::default(),
            lost: 0,
            lost_until_ns: None,
            refused: 0,
            unmatched: 0,
        }
    }

    /// Takes what the ring held. `offset_ns` makes the kernel's time that of the wall clock.
    pub(super) fn read(&mut self, mut bytes: &[u8], offset_ns: u64, report: Report<'_>) {
        self.maker.offset_ns = offset_ns;
        while let Some((event, behind)) = read_prefix::<dns_event>(bytes) {
            match u32::from(event.kind) {
                native::DNS_QUERY => self.ask(&event),
                native::DNS_ANSWER => self.answer(&event, report),
                _ => self.fail(&event, report),
            }
            bytes = behind;
        }
    }

    /// Gives those up that have waited too long. `lost` is how many messages the kernel has lost since the start: where that grows, silence
    /// proves nothing.
    pub(super) fn look_back(&mut self, now_ns: u64, lost: u64, report: Report<'_>) {
        if lost != self.lost {
            (self.lost, self.lost_until_ns) = (lost, Some(now_ns));
        }
        if now_ns < self.next_timeout_ns {
            return;
        }
        let timeout_ns = self.timeout_ns;
        let end_ns = |exchange: &Exchange| exchange.end_ns(timeout_ns);
        let over: Vec<Key> = self
            .waiting
            .iter()
            .filter(|(_, exchange)| end_ns(exchange) <= now_ns)
            .map(|(key, _)| *key)
            .collect();
        for exchange in over.iter().filter_map(|key| self.waiting.remove(key)) {
            let (state, reason, time_ns) = if let Some(error_ns) = exchange.error_ns {
                (State::Unreachable, "network error", error_ns)
            } else if Some(exchange.first_ns) <= self.lost_until_ns {
                let reason = "no answer, or one that was lost";
                (State::Desync, reason, end_ns(&exchange))
            } else {
                (State::Unreachable, "timeout", end_ns(&exchange))
            };
            let end = End::without_answer(state, reason, time_ns);
            report(&self.maker.profile(exchange, &end));
        }
        self.next_timeout_ns = self.waiting.values().map(end_ns).min().unwrap_or(u64::MAX);
    }

    /// The end of the measurement: what still waits.
    pub(super) fn finish(&mut self, now_ns: u64, report: Report<'_>) {
        for (_, exchange) in std::mem::take(&mut self.waiting) {
            let end = End::without_answer(State::New, "end of measurement", now_ns);
            report(&self.maker.profile(exchange, &end));
        }
    }

    fn ask(&mut self, event: &dns_event) {
        let key = Key::of(event);
        if let Some(exchange) = self.waiting.get_mut(&key) {
            exchange.retries += 1;
            exchange.error_ns = None;
            exchange.last_ns = event.time;
        } else if self.waiting.len() < EXCHANGES_MAX {
            let exchange = self.maker.exchange(event);
            self.waiting.insert(key, exchange);
            let end_ns = event.time.saturating_add(self.timeout_ns);
            self.next_timeout_ns = self.next_timeout_ns.min(end_ns);
        } else {
            self.refused += 1;
        }
    }

    fn answer(&mut self, event: &dns_event, report: Report<'_>) {
        let key = Key::of(event);
        let found = if event.message.has_question == 0 {
            let first = self.waiting.range(key..=key.last()).next();
            first.map(|(found, _)| *found)
        } else {
            Some(key)
        };
        let Some(exchange) = found.and_then(|key| self.waiting.remove(&key)) else {
            self.unmatched += 1;
            return;
        };
        report(&self.maker.profile(exchange, &End::of(event)));
    }

    /// An error of a socket ends all that it waits for from that resolver.
    fn fail(&mut self, event: &dns_event, report: Report<'_>) {
        // Only a hint on the size of packets.
        if event.error.cast_signed() == libc::EMSGSIZE {
            return;
        }
        let first = Key {
            id: 0,
            question: 0,
            ..Key::of(event)
        };
        let last = Key {
            id: u16::MAX,
            ..first.last()
        };
        if event.error == 0 {
            for (_, exchange) in self.waiting.range_mut(first..=last) {
                exchange.error_ns.get_or_insert(event.time);
            }
            let end_ns = event.time.saturating_add(ERROR_PATIENCE_NS);
            self.next_timeout_ns = self.next_timeout_ns.min(end_ns);
            return;
        }
        let over: Vec<Key> = self
            .waiting
            .range(first..=last)
            .map(|(key, _)| *key)
            .collect();
        let (state, reason) = ending(ESTABLISHED, event.error);
        for exchange in over.iter().filter_map(|key| self.waiting.remove(key)) {
            let end = End::without_answer(state, reason, event.time);
            report(&self.maker.profile(exchange, &end));
        }
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
}

#[cfg(test)]
mod tests {
    use fathom_record::{Record, Value};

    use super::*;
    use crate::live::bytes_of;
    use crate::native::{dns_message, flow_address_of};

    const MILLISECOND: u64 = 1_000_000;
    const SECOND: u64 = 1_000 * MILLISECOND;

    /// The exchanges, and a line for each profile: end, reason, code, latency, retries; what is missing is `-`.
    struct Bench {
        exchanges: Exchanges,
        lines: Vec<String>,
        lost: u64,
    }

    impl Bench {
        fn new() -> Self {
            Self {
                exchanges: Exchanges::new(Duration::from_secs(10)),
                lines: Vec::new(),
                lost: 0,
            }
        }

        fn take(&mut self, event: dns_event) -> &mut Self {
            let lines = &mut self.lines;
            let mut report = |record: &dyn Record| lines.push(line(record));
            self.exchanges.read(bytes_of(&event), 0, &mut report);
            self
        }

        fn at(&mut self, now_ns: u64) -> &mut Self {
            let lines = &mut self.lines;
            let mut report = |record: &dyn Record| lines.push(line(record));
            self.exchanges.look_back(now_ns, self.lost, &mut report);
            self
        }
    }

    fn line(record: &dyn Record) -> String {
        let value = |name| {
            let index = record.schema().position(name).unwrap();
            match record.value(index) {
                Value::Text(text) => text.to_owned(),
                Value::Unsigned(number) | Value::Duration(number) => number.to_string(),
                _ => "-".to_owned(),
            }
        };
        [
            "end_state",
            "reason",
            "response_code",
            "latency_ns",
            "retries",
        ]
        .map(value)
        .join(" ")
    }

    /// A query for an A record with the number 7 from the socket 1 to 192.0.2.53.
    fn query(time: u64) -> dns_event {
        dns_event {
            time,
            socket: 1,
            local: flow_address_of([10, 0, 0, 1].into()),
            remote: flow_address_of([192, 0, 2, 53].into()),
            local_port: 4000,
            remote_port: 53,
            process_id: 99,
            message: dns_message {
                question: 0xabcd,
                id: 7,
                query_type: 1,
                has_question: 1,
                ..dns_message::default()
            },
            protocol: 17,
            kind: native::DNS_QUERY as u8,
            ..dns_event::default()
        }
    }

    fn answer(time: u64, response_code: u8) -> dns_event {
        let query = query(time);
        dns_event {
            kind: native::DNS_ANSWER as u8,
            message: dns_message {
                is_answer: 1,
                response_code,
                ..query.message
            },
            ..query
        }
    }

    fn error(time: u64, error: i32) -> dns_event {
        dns_event {
            kind: native::DNS_ERROR as u8,
            error: error.cast_unsigned(),
            message: dns_message::default(),
            ..query(time)
        }
    }

    #[test]
    fn answers_end_exchanges_by_their_code() {
        let mut bench = Bench::new();
        for code in [0, 3, 2, 5, 1, 15] {
            bench.take(query(SECOND)).take(answer(SECOND + 20, code));
        }
        bench.take(query(SECOND));
        let mut truncated = answer(SECOND + 20, 0);
        truncated.message.is_truncated = 1;
        bench.take(truncated);
        assert_eq!(
            bench.lines,
            [
                "FINISHED answer NOERROR 20 0",
                "FINISHED answer NXDOMAIN 20 0",
                "BROKEN failure of the resolver SERVFAIL 20 0",
                "BROKEN failure of the resolver REFUSED 20 0",
                "BROKEN failure of the resolver FORMERR 20 0",
                "BROKEN failure of the resolver UNASSIGNED 20 0",
                "FINISHED truncated answer NOERROR 20 0",
            ]
        );
        assert_eq!(bench.exchanges.unmatched, 0);
    }

    #[test]
    fn the_same_query_again_is_a_retry_and_latency_counts_from_the_first() {
        let mut bench = Bench::new();
        bench.take(query(0)).take(query(5 * SECOND));
        bench.at(14 * SECOND).take(answer(14 * SECOND, 0));
        assert_eq!(bench.lines, ["FINISHED answer NOERROR 14000000000 1"]);
        // The resolver answers both.
        bench.take(answer(14 * SECOND + 1, 0));
        assert_eq!(bench.lines.len(), 1);
        assert_eq!(bench.exchanges.unmatched, 1);
    }

    #[test]
    fn ten_seconds_after_the_last_try_it_is_over() {
        let mut bench = Bench::new();
        bench.take(query(0)).take(query(5 * SECOND));
        bench.at(15 * SECOND - 1);
        assert!(bench.lines.is_empty());
        bench.at(15 * SECOND);
        assert_eq!(bench.lines, ["UNREACHABLE timeout - - 1"]);
        bench.at(60 * SECOND).take(answer(60 * SECOND, 0));
        assert_eq!(bench.lines.len(), 1);
        assert_eq!(bench.exchanges.unmatched, 1);
    }

    #[test]
    fn silence_proves_nothing_when_messages_were_lost() {
        let mut bench = Bench::new();
        bench.take(query(SECOND));
        bench.lost = 1;
        bench.at(2 * SECOND).take(query_of(2, 3 * SECOND));
        bench.at(20 * SECOND);
        assert_eq!(
            bench.lines,
            [
                "DESYNC no answer, or one that was lost - - 0",
                "UNREACHABLE timeout - - 0"
            ]
        );
    }

    fn query_of(socket: u64, time: u64) -> dns_event {
        dns_event {
            socket,
            ..query(time)
        }
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
            let mut bench = Bench::new();
            let mut other = answer(1, 0);
            change(&mut other);
            bench.take(query(0)).take(other);
            assert!(bench.lines.is_empty());
            bench.take(answer(2, 0));
            assert_eq!(bench.lines, ["FINISHED answer NOERROR 2 0"]);
        }
    }

    #[test]
    fn an_answer_without_a_question_is_of_the_query_with_its_number() {
        let mut bench = Bench::new();
        let mut bare = answer(30, 1);
        bare.message.question = 0;
        bare.message.has_question = 0;
        bench.take(query(0)).take(bare);
        assert_eq!(bench.lines, ["BROKEN failure of the resolver FORMERR 30 0"]);
        bench.take(bare);
        assert_eq!(bench.exchanges.unmatched, 1);
    }

    #[test]
    fn an_error_of_the_socket_ends_all_its_exchanges_with_that_resolver() {
        let mut bench = Bench::new();
        let mut second = query(1);
        second.message.id = 9;
        bench.take(query(0)).take(second).take(query_of(2, 2));
        bench.take(error(5, 0)).take(error(5, libc::EMSGSIZE));
        bench.at(6);
        assert!(bench.lines.is_empty());
        bench.take(error(6, libc::ECONNREFUSED));
        assert_eq!(bench.lines, ["BROKEN refused - - 0"; 2]);
        let unreachable = dns_event {
            socket: 2,
            ..error(7, libc::EHOSTUNREACH)
        };
        bench.take(unreachable);
        assert_eq!(bench.lines[2], "UNREACHABLE host unreachable - - 0");
    }

    #[test]
    fn an_error_that_the_application_took_first_is_one_all_the_same() {
        let mut bench = Bench::new();
        bench.take(query(0)).take(error(5, 0));
        bench.at(5 + ERROR_PATIENCE_NS - 1);
        assert!(bench.lines.is_empty());
        bench.at(5 + ERROR_PATIENCE_NS);
        assert_eq!(bench.lines, ["UNREACHABLE network error - - 0"]);
        // What is asked again may be answered.
        bench.take(query(SECOND)).take(error(SECOND + 5, 0));
        bench.take(query(SECOND + 6)).at(2 * SECOND);
        bench.take(answer(2 * SECOND, 0));
        assert_eq!(bench.lines[1], "FINISHED answer NOERROR 1000000000 1");
    }

    #[test]
    fn the_end_of_the_measurement_leaves_nothing_out() {
        let mut bench = Bench::new();
        bench.take(query(0));
        let lines = &mut bench.lines;
        let mut report = |record: &dyn Record| lines.push(line(record));
        bench.exchanges.finish(MILLISECOND, &mut report);
        assert_eq!(bench.lines, ["NEW end of measurement - - 0"]);
    }

    #[test]
    fn what_there_is_no_room_for_is_counted() {
        let mut bench = Bench::new();
        for socket in 0..EXCHANGES_MAX as u64 + 3 {
            bench.take(query_of(socket, 0));
        }
        assert_eq!(bench.exchanges.refused, 3);
        bench.at(10 * SECOND);
        assert_eq!(bench.lines.len(), EXCHANGES_MAX);
        bench
            .take(query(11 * SECOND))
            .take(answer(11 * SECOND + 1, 0));
        assert_eq!(bench.lines.len(), EXCHANGES_MAX + 1);
    }

    #[test]
    fn a_profile_says_who_asked_whom_for_what() {
        let mut exchanges = Exchanges::new(Duration::from_secs(10));
        let mut asked = query(3 * SECOND);
        asked.message.query_type = 65_280;
        for (place, letter) in asked.process.iter_mut().zip(*b"dig") {
            *place = letter.cast_signed();
        }
        let mut text = Vec::new();
        let sink = &mut fathom_record::format::Format::Json.sink();
        let mut answered = answer(3 * SECOND + 5, 0);
        answered.message.query_type = 65_280;
        for event in [asked, answered] {
            exchanges.read(bytes_of(&event), SECOND, &mut |record| {
                sink.write(record, &mut text);
            });
        }
        assert_eq!(
            String::from_utf8(text).unwrap().trim_end(),
            r#"{"kind":"profile_dns","time":"1970-01-01T00:00:04.000000005Z","protocol":"udp","source":"10.0.0.1","source_port":4000,"destination":"192.0.2.53","destination_port":53,"start_state":"NEW","end_state":"FINISHED","reason":"answer","start_time":"1970-01-01T00:00:04.000000000Z","query_type":"TYPE65280","response_code":"NOERROR","latency_ns":5,"retries":0,"transaction_id":7,"pid":99,"process":"dig"}"#
        );
    }
}
