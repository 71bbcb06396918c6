//! The rows of the table: what each flow carried in the last interval, and what it has lost.

use fathom_measure::traffic::TrafficRecord;
use fathom_record::{FlowKey, Record};
use fathom_terminal::{Cell, Column, Severity, percent, scaled};

use crate::table::{Recent, Rows, SortKey};

/// What a row stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key {
    flow: FlowKey,
    vlan: Option<u16>,
    inner_vlan: Option<u16>,
    tunnel: Option<u32>,
    interface: &'static str,
}

/// A flow.
#[derive(Clone)]
pub(super) struct Row {
    last: TrafficRecord,
    /// Did it have packets in the last interval?
    is_busy: bool,
    /// Packets since the start, in both directions.
    lost: u64,
}

impl Row {
    fn bytes(&self) -> u64 {
        if self.is_busy {
            self.last.bytes + self.last.reverse_bytes
        } else {
            0
        }
    }

    /// So many in the last interval, a second.
    fn per_second(&self, count: u64) -> f64 {
        let length = self.last.duration_ns.0.max(1) as f64 / 1e9;
        count as f64 / length
    }
}

/// All rows.
#[derive(Clone)]
pub(super) struct FlowRows {
    rows: Recent<Key, Row>,
    /// Since the start.
    packets: u64,
    /// Of the last record, in nanoseconds since 1970.
    now: u64,
}

impl FlowRows {
    /// None yet.
    pub(super) fn new() -> Self {
        Self {
            rows: Recent::new(),
            packets: 0,
            now: 0,
        }
    }
}

impl Rows for FlowRows {
    type Key = Key;
    type Row = Row;

    const COMMAND: &'static str = "traffic";
    const COUNTED: &'static str = "packets";
    const OF: &'static str = "flows";
    const COLUMNS: &'static [Column] = &[
        Column::wide("flow", 40, 0),
        Column::number("bit/s", 7, 1),
        Column::number("back", 7, 2),
        Column::number("packets/s", 9, 6),
        Column::number("loss", 7, 3),
        Column::number("back", 7, 4),
        Column::number("lost", 7, 5),
        Column::text("interface", 9, 7),
    ];
    const SORT_KEYS: &'static [SortKey<Row>] = &[
        SortKey {
            name: "busiest",
            title: "bit/s",
            key: Some(Row::bytes),
        },
        SortKey {
            name: "most lost",
            title: "lost",
            key: Some(|row| row.lost),
        },
        SortKey {
            name: "most recent",
            title: "",
            key: None,
        },
    ];

    fn take(&mut self, record: &dyn Record) {
        let Some(record) = record.downcast_ref::<TrafficRecord>() else {
            return;
        };
        self.packets += record.packets + record.reverse_packets;
        self.now = self.now.max(record.time.0);
        let key = Key {
            flow: record.flow,
            vlan: record.vlan,
            inner_vlan: record.inner_vlan,
            tunnel: record.tunnel,
            interface: record.interface,
        };
        let row = self.rows.row(key, || Row {
            last: *record,
            is_busy: true,
            lost: 0,
        });
        row.last = *record;
        let lost = [
            record.packets_lost_before,
            record.packets_lost_after,
            record.reverse_packets_lost_before,
            record.reverse_packets_lost_after,
        ];
        row.lost += lost.iter().flatten().sum::<u64>();
    }

    fn rows(&self) -> &Recent<Key, Row> {
        &self.rows
    }

    fn counted(&self) -> u64 {
        self.packets
    }

    fn settle(&mut self) {
        for row in self.rows.all_mut() {
            // Records of an interval leave during the next one.
            let length = row.last.duration_ns.0;
            row.is_busy = row.last.time.0 + 2 * length > self.now;
        }
    }

    fn lines(&self, row: &Row) -> Vec<Vec<Cell>> {
        let last = &row.last;
        let rate = |count, text: fn(f64) -> String| {
            let rate = row.is_busy.then(|| row.per_second(count));
            rate.map_or_else(String::new, text)
        };
        let loss = |ratio: Option<f64>| {
            let ratio = ratio.filter(|_| row.is_busy);
            Cell::rated(percent(ratio), Severity::of_loss(ratio))
        };
        let bits_of = |bytes: u64| rate(bytes * 8, scaled);
        let packets = last.packets + last.reverse_packets;
        vec![vec![
            last.flow.to_string().into(),
            bits_of(last.bytes).into(),
            bits_of(last.reverse_bytes).into(),
            rate(packets, |rate| format!("{rate:.0}")).into(),
            loss(last.loss_ratio),
            loss(last.reverse_loss_ratio),
            match last.packets_lost_before {
                Some(_) => row.lost.to_string(),
                None => String::new(),
            }
            .into(),
            last.interface.to_owned().into(),
        ]]
    }
}

#[cfg(test)]
mod tests {
    use fathom_record::{Nanoseconds, Protocol, Time};

    use super::*;
    use crate::table::{Ranked, TableView as _, drawn};

    /// What a flow of TCP carried in the second that ended then; of UDP nothing is said of loss.
    fn record(second: u64, port: u16, bytes: u64, lost: Option<u64>) -> TrafficRecord {
        TrafficRecord {
            time: Time(second * 1_000_000_000),
            duration_ns: Nanoseconds(1_000_000_000),
            flow: FlowKey {
                protocol: lost.map_or(Protocol::UDP, |_| Protocol::TCP),
                source: "192.0.2.1".parse().unwrap(),
                source_port: port,
                destination: "198.51.100.7".parse().unwrap(),
                destination_port: 443,
            },
            packets: bytes / 1000,
            bytes,
            packets_retransmitted: lost,
            bytes_retransmitted: lost,
            packets_out_of_order: lost,
            packets_lost_before: lost,
            packets_lost_after: lost,
            loss_ratio: lost.map(|lost| 2.0 * lost as f64 / (bytes / 1000) as f64),
            reverse_packets: 10,
            reverse_bytes: 520,
            reverse_packets_retransmitted: lost.map(|_| 0),
            reverse_bytes_retransmitted: lost.map(|_| 0),
            reverse_packets_out_of_order: lost.map(|_| 0),
            reverse_packets_lost_before: lost.map(|_| 0),
            reverse_packets_lost_after: lost.map(|_| 0),
            reverse_loss_ratio: None,
            vlan: None,
            inner_vlan: None,
            tunnel: None,
            interface: "eth0",
        }
    }

    #[test]
    fn the_table_looks_like_this() {
        let mut table = Ranked::new(FlowRows::new(), &["eth0".to_owned()]);
        table.take(&record(100, 1, 90_000_000, Some(5)));
        table.take(&record(103, 2, 1_000_000, Some(5)));
        table.take(&record(103, 2, 1_500_000, Some(7)));
        table.take(&record(103, 3, 2_500_000, None));
        table.update(
            std::time::Instant::now(),
            &fathom_measure::Counts::default(),
        );
        insta::assert_snapshot!(drawn(120, 8, &mut table, None));
    }
}
