//! From queries and answers to exchanges: which query an answer is of, and which have waited too
//! long.

use std::time::Duration;

use super::exchange::{End, ProfileBuilder};
use super::name;
use super::waiting::Waiting;
use crate::bytes::read_prefix;
use crate::profile::State;
use crate::profile::connections::Report;
use crate::profile::ending::{END_OF_MEASUREMENT, ending};
use crate::profile::names::Names;
use crate::profile::native::{self, dns_event};

/// The state of a socket whose error ended something that was under way (`TCP_ESTABLISHED` of the
/// kernel).
const ESTABLISHED: u8 = 1;

/// Exchanges while they are measured.
#[derive(Debug)]
pub(super) struct Exchanges {
    waiting: Waiting,
    /// What is written into records.
    builder: ProfileBuilder,
    /// Messages that the kernel had lost when last asked, and up to when one may have been lost.
    lost: u64,
    lost_until_ns: Option<u64>,
    /// Queries that there was no room for.
    pub(super) refused: u64,
    /// Answers to nothing that waits: late ones, repeated ones, those of queries before the start.
    pub(super) unmatched: u64,
}

impl Exchanges {
    /// Those that have waited `timeout` since they were last sent are over. Records have `names`.
    pub(super) fn new(timeout: Duration, names: Names) -> Self {
        Self {
            waiting: Waiting::new(timeout),
            builder: ProfileBuilder::new(names),
            lost: 0,
            lost_until_ns: None,
            refused: 0,
            unmatched: 0,
        }
    }

    /// Takes what the ring held. `offset_ns` makes the kernel's time that of the wall clock.
    pub(super) fn read(&mut self, mut bytes: &[u8], offset_ns: u64, report: Report<'_>) {
        self.builder.offset_ns = offset_ns;
        while let Some((event, behind)) = read_prefix::<dns_event>(bytes) {
            let (name, behind) = match event.has_name {
                0 => (None, behind),
                _ => match behind.split_at_checked(native::DNS_NAME_BYTES as usize) {
                    Some((name, behind)) => (name::text(name), behind),
                    None => return,
                },
            };
            match u32::from(event.kind) {
                native::DNS_QUERY => self.ask(&event, name),
                native::DNS_ANSWER => self.answer(&event, report),
                _ => self.fail(&event, report),
            }
            bytes = behind;
        }
    }

    /// Gives those up that have waited too long. `lost` is how many messages the kernel has lost
    /// since the start: where that grows, silence proves nothing.
    pub(super) fn look_back(&mut self, now_ns: u64, lost: u64, report: Report<'_>) {
        if lost != self.lost {
            (self.lost, self.lost_until_ns) = (lost, Some(now_ns));
        }
        for (exchange, end_ns) in self.waiting.take_over(now_ns) {
            let (state, reason, time_ns) = if let Some(error_ns) = exchange.error_ns {
                (State::Unreachable, "network error", error_ns)
            } else if Some(exchange.first_ns) <= self.lost_until_ns {
                (State::Desync, "no answer, or one that was lost", end_ns)
            } else {
                (State::Unreachable, "timeout", end_ns)
            };
            let end = End::without_answer(state, reason, time_ns);
            report(self.builder.profile(exchange, &end).into());
        }
    }

    /// The end of the measurement: what still waits.
    pub(super) fn finish(&mut self, now_ns: u64, report: Report<'_>) {
        for exchange in self.waiting.take_all() {
            let end = End::without_answer(State::New, END_OF_MEASUREMENT, now_ns);
            report(self.builder.profile(exchange, &end).into());
        }
    }

    fn ask(&mut self, event: &dns_event, name: Option<String>) {
        if let Some(exchange) = self.waiting.repeated(event) {
            exchange.retries += 1;
            exchange.error_ns = None;
            exchange.last_ns = event.time;
        } else if self.waiting.has_room() {
            self.waiting.add(event, self.builder.exchange(event, name));
        } else {
            self.refused += 1;
        }
    }

    fn answer(&mut self, event: &dns_event, report: Report<'_>) {
        match self.waiting.take_answered(event) {
            Some(exchange) => report(self.builder.profile(exchange, &End::of(event)).into()),
            None => self.unmatched += 1,
        }
    }

    /// An error of a socket ends all that it waits for from that resolver.
    fn fail(&mut self, event: &dns_event, report: Report<'_>) {
        match event.error.cast_signed() {
            // Only a hint on the size of packets.
            libc::EMSGSIZE => {}
            0 => self.waiting.doubt(event),
            _ => {
                let (state, reason) = ending(ESTABLISHED, event.error);
                let end = End::without_answer(state, reason, event.time);
                for exchange in self.waiting.take_failed(event) {
                    report(self.builder.profile(exchange, &end).into());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use fathom_record::{Record, Value};

    use super::super::events::{answer, error, query, query_of};
    use super::super::waiting::{ERROR_PATIENCE_NS, EXCHANGES_MAX};
    use super::*;
    use crate::bytes::bytes_of;
    use crate::profile::reorder::ProfileRecord;

    const MILLISECOND: u64 = 1_000_000;
    const SECOND: u64 = 1_000 * MILLISECOND;

    /// The exchanges, and a line for each profile: end, reason, code, latency, retries; what is
    /// missing is `-`.
    struct Bench {
        exchanges: Exchanges,
        lines: Vec<String>,
        lost: u64,
    }

    impl Bench {
        fn new() -> Self {
            Self {
                exchanges: Exchanges::new(Duration::from_secs(10), Names::default()),
                lines: Vec::new(),
                lost: 0,
            }
        }

        fn take(&mut self, event: dns_event) -> &mut Self {
            let lines = &mut self.lines;
            let mut report = |told: ProfileRecord| lines.push(line(told.record()));
            self.exchanges.read(bytes_of(&event), 0, &mut report);
            self
        }

        fn at(&mut self, now_ns: u64) -> &mut Self {
            let lines = &mut self.lines;
            let mut report = |told: ProfileRecord| lines.push(line(told.record()));
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
        let mut report = |told: ProfileRecord| lines.push(line(told.record()));
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
    fn a_profile_has_the_name_that_was_asked() {
        let mut exchanges = Exchanges::new(Duration::from_secs(10), Names::default());
        let mut asked = bytes_of(&dns_event {
            has_name: 1,
            ..query(SECOND)
        })
        .to_vec();
        let mut name = [0; native::DNS_NAME_BYTES as usize];
        name[..12].copy_from_slice(b"\x03www\x07example");
        asked.extend(name);
        asked.extend(bytes_of(&answer(2 * SECOND, 0)));
        let mut names = Vec::new();
        exchanges.read(&asked, 0, &mut |told| match told {
            ProfileRecord::Dns(profile) => names.push(profile.query_name),
            other => panic!("{other:?}"),
        });
        assert_eq!(names, [Some("www.example".into())]);
    }

    #[test]
    fn a_profile_says_who_asked_whom_for_what() {
        let mut exchanges = Exchanges::new(Duration::from_secs(10), Names::default());
        let mut asked = query(3 * SECOND);
        asked.message.query_type = 65_280;
        for (target, letter) in asked.process.iter_mut().zip(*b"dig") {
            *target = letter.cast_signed();
        }
        let mut text = Vec::new();
        let sink = &mut fathom_record::format::Format::Json.sink();
        let mut answered = answer(3 * SECOND + 5, 0);
        answered.message.query_type = 65_280;
        for event in [asked, answered] {
            exchanges.read(bytes_of(&event), SECOND, &mut |told| {
                sink.write(told.record(), &mut text);
            });
        }
        assert_eq!(
            String::from_utf8(text).unwrap().trim_end(),
            r#"{"kind":"profile_dns","time":"1970-01-01T00:00:04.000000005Z","protocol":"udp","source":"10.0.0.1","source_port":4000,"destination":"192.0.2.53","destination_port":53,"community_id":"1:zd2p56UfklWyAwrDsdcI0J11fB8=","start_state":"NEW","end_state":"FINISHED","reason":"answer","flow_end_reason":"end of flow","start_time":"1970-01-01T00:00:04.000000000Z","query_type":"TYPE65280","response_code":"NOERROR","latency_ns":5,"retries":0,"transaction_id":7,"pid":99,"process":"dig"}"#
        );
    }
}
