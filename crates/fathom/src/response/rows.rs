//! The rows of the table: what clients waited for each service, over the last minute.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use fathom_measure::response::{Confidence, ResponseEpoch};
use fathom_record::{Histogram, Protocol, Record};
use fathom_terminal::{Cell, Column, Severity, bars_of, duration};

use crate::table::{Recent, Rows, SortKey};

/// Seconds that a row remembers.
const SECONDS: usize = 60;
const NS_PER_SECOND: u64 = 1_000_000_000;
/// Seconds that each column of the course stands for.
const SECONDS_PER_BAR: usize = 3;

/// What a row stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key {
    protocol: Protocol,
    server: IpAddr,
    port: u16,
    interface: &'static str,
}

/// A second of a service.
#[derive(Debug, Clone, Default)]
struct Second {
    /// Since 1970.
    number: u64,
    waits: Histogram,
    sure: u64,
    flows: u32,
    waiting_ns: u64,
}

/// The epochs of one service over the last minute.
#[derive(Clone)]
pub(super) struct Row {
    key: Key,
    seconds: VecDeque<Second>,
    /// The waits of all seconds, as of the last drawing.
    waits: Histogram,
}

impl Row {
    fn new(key: Key) -> Self {
        Self {
            key,
            seconds: VecDeque::new(),
            waits: Histogram::new(),
        }
    }

    fn take(&mut self, epoch: &ResponseEpoch) {
        let number = epoch.time.0 / NS_PER_SECOND;
        // Epochs come in the order of their end, but for a few.
        if self.seconds.back().is_none_or(|last| last.number < number) {
            self.seconds.push_back(Second {
                number,
                ..Second::default()
            });
        }
        let Some(second) = self.seconds.back_mut() else {
            return;
        };
        let waiting = epoch.waiting_ns.unwrap_or_default();
        second.waiting_ns = second.waiting_ns.max(waiting.0);
        if let Some(latency) = epoch.latency_ns {
            let count = u64::from(epoch.causal_gaps);
            second.waits.record_many(latency.0, count);
            second.flows += 1;
            if epoch.confidence == Confidence::High {
                second.sure += count;
            }
        }
    }

    /// Forgets what is older than a minute, and puts the rest together.
    fn settle(&mut self, now: u64) {
        while let Some(first) = self.seconds.front()
            && first.number + (SECONDS as u64) < now
        {
            self.seconds.pop_front();
        }
        self.waits.clear();
        for second in &self.seconds {
            self.waits.merge(&second.waits);
        }
    }

    /// The medians of the last minute, each bar relative to the highest.
    fn course(&self, now: u64) -> String {
        let mut medians = [0; SECONDS / SECONDS_PER_BAR];
        let begin = now.saturating_sub(SECONDS as u64);
        for (number, median) in medians.iter_mut().enumerate() {
            let from = begin + (number * SECONDS_PER_BAR) as u64;
            let mut waits = Histogram::new();
            for second in &self.seconds {
                if (from..from + SECONDS_PER_BAR as u64).contains(&second.number) {
                    waits.merge(&second.waits);
                }
            }
            *median = waits.quantile(0.5).unwrap_or_default();
        }
        bars_of(&medians)
    }
}

#[derive(Clone)]
pub(super) struct ServiceRows {
    rows: Recent<Key, Row>,
    /// Since the start.
    responses: u64,
    /// The time of the last epoch, in seconds since 1970.
    now: u64,
}

impl ServiceRows {
    /// None yet.
    pub(super) fn new() -> Self {
        Self {
            rows: Recent::new(),
            responses: 0,
            now: 0,
        }
    }
}

impl Rows for ServiceRows {
    type Key = Key;
    type Row = Row;

    const COMMAND: &'static str = "response";
    const COUNTED: &'static str = "responses";
    const OF: &'static str = "services";
    const COLUMNS: &'static [Column] = &[
        Column::wide("service", 26, 0),
        Column::number("p50", 8, 1),
        Column::number("p99", 8, 2),
        Column::number("responses/s", 11, 3),
        Column::number("epochs", 7, 7),
        Column::number("sure", 5, 4),
        Column::text("p50, last minute", (SECONDS / SECONDS_PER_BAR) as u16, 5),
        Column::number("waiting", 8, 6),
        Column::text("interface", 9, 8),
    ];
    const SORT_KEYS: &'static [SortKey<Row>] = &[
        SortKey {
            name: "slowest p99",
            title: "p99",
            key: Some(|row| row.waits.quantile(0.99).unwrap_or_default()),
        },
        SortKey {
            name: "most responses",
            title: "responses/s",
            key: Some(|row| row.waits.count()),
        },
        SortKey {
            name: "most recent",
            title: "",
            key: None,
        },
    ];

    fn take(&mut self, record: &dyn Record) {
        let Some(epoch) = record.downcast_ref::<ResponseEpoch>() else {
            return;
        };
        self.responses += u64::from(epoch.causal_gaps);
        self.now = self.now.max(epoch.time.0 / NS_PER_SECOND);
        let key = Key {
            protocol: epoch.flow.protocol,
            server: epoch.flow.destination,
            port: epoch.flow.destination_port,
            interface: epoch.interface,
        };
        self.rows.row(key, || Row::new(key)).take(epoch);
    }

    fn rows(&self) -> &Recent<Key, Row> {
        &self.rows
    }

    fn counted(&self) -> u64 {
        self.responses
    }

    fn settle(&mut self) {
        for row in self.rows.all_mut() {
            row.settle(self.now);
        }
    }

    fn lines(&self, row: &Row) -> Vec<Vec<Cell>> {
        let latency = |ns| Cell::rated(duration(ns), Severity::of_latency(ns));
        let seconds = || row.seconds.iter();
        let first = row.seconds.front().map_or(self.now, |second| second.number);
        let passed = self.now.saturating_sub(first).max(1);
        let count = row.waits.count();
        let sure: u64 = seconds().map(|second| second.sure).sum();
        let epochs: u64 = seconds().map(|second| u64::from(second.flows)).sum();
        let last = row.seconds.back();
        let recent = last.filter(|second| second.number + 2 >= self.now);
        vec![vec![
            row.key.text().into(),
            latency(row.waits.quantile(0.5)),
            latency(row.waits.quantile(0.99)),
            format!("{:.1}", count as f64 / passed as f64).into(),
            epochs.to_string().into(),
            match count {
                0 => String::new(),
                count => format!("{} %", sure * 100 / count),
            }
            .into(),
            row.course(self.now).into(),
            latency(recent.map(|second| second.waiting_ns).filter(|&ns| ns > 0)),
            row.key.interface.to_owned().into(),
        ]]
    }
}

impl Key {
    fn text(&self) -> String {
        match self.port {
            0 => format!("{} {}", self.protocol, self.server),
            port => format!("{} {}", self.protocol, SocketAddr::new(self.server, port)),
        }
    }
}
