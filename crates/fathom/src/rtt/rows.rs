//! The rows of the table: the samples of one flow, direction, method and interface.

use std::fmt::Write as _;

use fathom_measure::rtt::{Method, Report, RttSample};
use fathom_record::format::display_duration;
use fathom_record::{FlowKey, Histogram, Record};
use fathom_terminal::{AXIS, BARS, Cell, Column, Severity, bars};

use crate::table::{Recent, Rows, SortKey};

/// What a row stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key {
    flow: FlowKey,
    method: Method,
    vlan: (Option<u16>, Option<u16>),
    tunnel: Option<u32>,
    interface: &'static str,
}

#[derive(Clone)]
pub(super) struct Row {
    key: Key,
    last_ns: u64,
    min_ns: u64,
    distribution: Histogram,
}

impl Row {
    fn new(key: Key) -> Self {
        Self {
            key,
            last_ns: 0,
            min_ns: u64::MAX,
            distribution: Histogram::new(),
        }
    }

    /// 0 while there are no samples, which no row is without.
    fn quantile(&self, quantile: f64) -> u64 {
        self.distribution.quantile(quantile).unwrap_or_default()
    }

    fn flow_text(&self) -> String {
        let mut text = self.key.flow.to_string();
        let (vlan, inner_vlan) = self.key.vlan;
        for (name, number) in [
            ("vlan", vlan.map(u32::from)),
            ("vlan", inner_vlan.map(u32::from)),
            ("tunnel", self.key.tunnel),
        ] {
            if let Some(number) = number {
                // Writing to memory does not fail.
                let _ = write!(text, " {name} {number}");
            }
        }
        text
    }
}

#[derive(Clone)]
pub(super) struct FlowRows {
    rows: Recent<Key, Row>,
    /// Since the start.
    samples: u64,
}

impl FlowRows {
    /// None yet.
    pub(super) fn new() -> Self {
        Self {
            rows: Recent::new(),
            samples: 0,
        }
    }

    fn take_sample(&mut self, sample: &RttSample) {
        self.samples += 1;
        let key = Key {
            flow: sample.flow,
            method: sample.method,
            vlan: (sample.vlan, sample.inner_vlan),
            tunnel: sample.tunnel,
            interface: sample.interface,
        };
        let rtt_ns = sample.rtt_ns.0;
        let min_ns = sample.rtt_min_ns.map_or(rtt_ns, |least| least.0);
        let row = self.rows.row(key, || Row::new(key));
        row.last_ns = rtt_ns;
        row.min_ns = row.min_ns.min(min_ns);
        row.distribution.record(rtt_ns);
    }
}

impl Rows for FlowRows {
    type Key = Key;
    type Row = Row;

    const COMMAND: &'static str = "rtt";
    const COUNTED: &'static str = "samples";
    const OF: &'static str = "rows";
    const COLUMNS: &'static [Column] = &[
        Column::wide("flow", 34, 0),
        Column::text("method", 9, 6),
        Column::number("last", 9, 1),
        Column::number("min", 9, 5),
        Column::number("p50", 9, 2),
        Column::number("p99", 9, 3),
        Column::text(AXIS, BARS as u16, 7),
        Column::number("samples", 9, 4),
        Column::text("interface", 10, 8),
    ];
    const SORT_KEYS: &'static [SortKey<Row>] = &[
        SortKey {
            name: "most samples",
            title: "samples",
            key: Some(|row| row.distribution.count()),
        },
        SortKey {
            name: "most recent",
            title: "",
            key: None,
        },
        SortKey {
            name: "slowest p99",
            title: "p99",
            key: Some(|row| row.quantile(0.99)),
        },
        SortKey {
            name: "slowest p50",
            title: "p50",
            key: Some(|row| row.quantile(0.5)),
        },
        SortKey {
            name: "slowest now",
            title: "last",
            key: Some(|row| row.last_ns),
        },
    ];

    fn take(&mut self, record: &dyn Record) {
        if let Some(Report::Sample(sample, _)) = record.downcast_ref() {
            self.take_sample(sample);
        }
    }

    fn rows(&self) -> &Recent<Key, Row> {
        &self.rows
    }

    fn counted(&self) -> u64 {
        self.samples
    }

    fn lines(&self, row: &Row) -> Vec<Vec<Cell>> {
        let duration = |ns: u64| {
            // What is above the shortest waited in queues, or for an answer.
            let severity = Severity::of_queue(ns.checked_sub(row.min_ns));
            Cell::rated(display_duration(ns).to_string(), severity)
        };
        vec![vec![
            row.flow_text().into(),
            row.key.method.name().to_owned().into(),
            duration(row.last_ns),
            duration(row.min_ns),
            duration(row.quantile(0.5)),
            duration(row.quantile(0.99)),
            bars(&row.distribution).into(),
            row.distribution.count().to_string().into(),
            row.key.interface.to_owned().into(),
        ]]
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use fathom_measure::Counts;
    use fathom_measure::rtt::Observed;
    use fathom_record::{Nanoseconds, Protocol, Time};
    use ratatui::crossterm::event::KeyCode;

    use super::*;
    use crate::table::{Ranked, TableView as _, drawn, press};

    /// An echo of the flow with this identifier.
    fn sample(identifier: u16, rtt_ns: u64) -> Report {
        let sample = RttSample {
            time: Time(0),
            flow: FlowKey {
                protocol: Protocol::ICMP,
                source: [10, 0, 0, 1].into(),
                source_port: identifier,
                destination: [10, 0, 1, 1].into(),
                destination_port: identifier,
            },
            method: Method::Echo,
            rtt_ns: Nanoseconds(rtt_ns),
            rtt_min_ns: None,
            is_retransmitted: None,
            is_loop: None,
            vlan: None,
            inner_vlan: None,
            tunnel: None,
            interface: "eth0",
            observed: Observed::default(),
        };
        Report::Sample(sample, None)
    }

    fn filled() -> Ranked<FlowRows> {
        let interfaces = ["eth0", "eth1"].map(str::to_owned);
        let mut table = Ranked::new(FlowRows::new(), &interfaces);
        for round in 1..=40 {
            table.take(&sample(5000, 20_000_000 + round * 100_000));
            if round % 4 == 0 {
                table.take(&sample(5001, round * 30_000));
            }
        }
        table.take(&sample(5002, 2_500_000_000));
        let counts = Counts {
            measured: vec![("frames", 102), ("samples", 51)],
            named: vec![("frames not IP", 3)],
        };
        table.update(Instant::now(), &counts);
        table
    }

    #[test]
    fn the_table_looks_like_this() {
        insta::assert_snapshot!(drawn(140, 8, &mut filled(), None));
    }

    #[test]
    fn a_narrow_and_low_terminal_is_made_use_of() {
        let mut table = filled();
        press(&mut table, &[KeyCode::Down]);
        insta::assert_snapshot!(drawn(80, 5, &mut table, Some("eth1 has disappeared")));
        drawn(1, 1, &mut table, None);
    }

    #[test]
    fn rows_are_ranked_as_chosen() {
        let mut table = filled();
        for (order, first) in ["5000", "5002", "5002"].into_iter().enumerate() {
            let text = drawn(140, 8, &mut table, None);
            let row = text.lines().nth(3).unwrap();
            assert!(row.contains(first), "{order}: {row}");
            press(&mut table, &[KeyCode::Char('s')]);
        }
    }
}
