//! Tables that live measurements show on a terminal, and that of round trips: what is in it and how it is drawn, apart from the terminal itself.

mod columns;
mod draw;
mod histogram;
mod screen;

use std::cmp::Reverse;
use std::num::NonZero;
use std::time::Instant;

use fathom_measure::rtt::{Counts, Method, RttSample};
use fathom_record::{FlowKey, Histogram};
use lru::LruCache;
use ratatui::Frame;

use draw::Surroundings;

pub(crate) use columns::fitting_of;
pub(crate) use histogram::bars_of;
pub(crate) use screen::{Rate, Screen, Shown, Wish, is_looked_at};

/// Rows that are kept; the one that was longest without a sample gives way.
const ROWS_MAX: NonZero<usize> = NonZero::new(1000).expect("not zero");

/// What a row stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct RowKey {
    flow: FlowKey,
    method: Method,
    vlan: (Option<u16>, Option<u16>),
    tunnel: Option<u32>,
    interface: &'static str,
}

/// The samples of one flow, direction, method and interface.
#[derive(Debug)]
struct Row {
    key: RowKey,
    last_ns: u64,
    min_ns: u64,
    distribution: Histogram,
}

impl Row {
    fn samples(&self) -> u64 {
        self.distribution.count()
    }

    /// 0 while there are no samples, which no row is without.
    fn quantile(&self, quantile: f64) -> u64 {
        self.distribution.quantile(quantile).unwrap_or_default()
    }
}

/// By what rows are sorted, the greatest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Samples,
    Recent,
    Slowest,
}

impl Order {
    fn next(self) -> Self {
        match self {
            Self::Samples => Self::Recent,
            Self::Recent => Self::Slowest,
            Self::Slowest => Self::Samples,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Samples => "most samples",
            Self::Recent => "most recent",
            Self::Slowest => "slowest p99",
        }
    }
}

/// The table of round trips with what stands around it.
pub(crate) struct RttTable {
    table: Table,
    interfaces: String,
    rate: Rate,
    counts: Counts,
}

impl RttTable {
    /// An empty one.
    pub(crate) fn new(interfaces: &[String]) -> Self {
        Self {
            table: Table::new(),
            interfaces: interfaces.join(", "),
            rate: Rate::new(),
            counts: Counts::default(),
        }
    }

    /// Takes a sample in.
    pub(crate) fn take(&mut self, sample: &RttSample) {
        self.table.take(sample);
    }

    /// What is to be drawn at `now`.
    pub(crate) fn update(&mut self, now: Instant, counts: Counts) {
        self.rate.update(now, self.table.samples);
        self.counts = counts;
    }
}

impl Shown for RttTable {
    fn draw(&self, frame: &mut Frame<'_>, message: Option<&str>) {
        let surroundings = Surroundings {
            interfaces: &self.interfaces,
            samples_per_second: self.rate.per_second,
            counts: &self.counts,
            message,
        };
        draw::draw(frame, &self.table, &surroundings);
    }

    fn scroll(&mut self, rows: isize) {
        self.table.scroll(rows);
    }

    fn sort_differently(&mut self) {
        self.table.sort_differently();
    }
}

/// All that is shown.
struct Table {
    rows: LruCache<RowKey, Row>,
    /// Rows that had to give way, since the start.
    left_out: u64,
    /// Samples since the start.
    samples: u64,
    order: Order,
    /// Rows scrolled past.
    offset: usize,
}

impl Table {
    fn new() -> Self {
        Self {
            rows: LruCache::new(ROWS_MAX),
            left_out: 0,
            samples: 0,
            order: Order::Samples,
            offset: 0,
        }
    }

    fn take(&mut self, sample: &RttSample) {
        self.samples += 1;
        let key = RowKey {
            flow: sample.flow,
            method: sample.method,
            vlan: (sample.vlan, sample.inner_vlan),
            tunnel: sample.tunnel,
            interface: sample.interface,
        };
        let rtt_ns = sample.rtt_ns.0;
        let min_ns = sample.rtt_min_ns.map_or(rtt_ns, |least| least.0);
        if let Some(row) = self.rows.get_mut(&key) {
            row.last_ns = rtt_ns;
            row.min_ns = row.min_ns.min(min_ns);
            row.distribution.record(rtt_ns);
            return;
        }
        let mut distribution = Histogram::new();
        distribution.record(rtt_ns);
        let row = Row {
            key,
            last_ns: rtt_ns,
            min_ns,
            distribution,
        };
        self.left_out += u64::from(self.rows.push(key, row).is_some());
    }

    /// In the order that was chosen; equals stay in the order of their last samples, newest first.
    fn sorted(&self) -> Vec<&Row> {
        let mut rows: Vec<_> = self.rows.iter().map(|(_, row)| row).collect();
        match self.order {
            Order::Recent => {}
            Order::Samples => rows.sort_by_key(|row| Reverse(row.samples())),
            Order::Slowest => rows.sort_by_cached_key(|row| Reverse(row.quantile(0.99))),
        }
        rows
    }

    /// Moves by so many rows, not beyond the ends.
    fn scroll(&mut self, rows: isize) {
        let last = self.rows.len().saturating_sub(1);
        self.offset = self.offset.saturating_add_signed(rows).min(last);
    }

    fn sort_differently(&mut self) {
        self.order = self.order.next();
        self.offset = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::draw::tests::sample;

    #[test]
    fn rows_are_bounded_and_the_count_of_those_left_out_is_kept() {
        let mut table = Table::new();
        for port in 0..1500 {
            table.take(&sample(port, 1_000_000));
        }
        assert_eq!(
            (table.rows.len(), table.left_out, table.samples),
            (1000, 500, 1500)
        );
        table.order = Order::Recent;
        assert_eq!(table.sorted()[0].key.flow.source_port, 1499);
    }

    #[test]
    fn rows_are_sorted_as_chosen() {
        let mut table = Table::new();
        for (port, rtt_ns) in [
            (1, 10_000),
            (1, 10_000),
            (1, 10_000),
            (2, 50_000),
            (3, 90_000),
            (2, 20_000),
        ] {
            table.take(&sample(port, rtt_ns));
        }
        let ports = |table: &Table| {
            table
                .sorted()
                .iter()
                .map(|row| row.key.flow.source_port)
                .collect::<Vec<_>>()
        };
        assert_eq!(ports(&table), [1, 2, 3]);
        table.sort_differently();
        assert_eq!(ports(&table), [2, 3, 1]);
        table.sort_differently();
        assert_eq!(ports(&table), [3, 2, 1]);
    }

    #[test]
    fn scrolling_ends_at_the_ends() {
        let mut table = Table::new();
        (0..3).for_each(|port| table.take(&sample(port, 1)));
        table.scroll(-5);
        assert_eq!(table.offset, 0);
        table.scroll(50);
        assert_eq!(table.offset, 2);
    }
}
