//! The rows of the table: every flow, with its hops below it.

use fathom_measure::hops::{HopProbe, HopSummary};
use fathom_record::format::{OffsetAt, Sink, TextWriter};
use fathom_record::{FlowKey, Record};
use fathom_terminal::{Cell, Column, Severity, duration};

use super::paths::{Hop, Path, Paths};
use crate::table::{Recent, Rows, SortKey};

#[derive(Clone)]
pub(super) struct PathRows {
    paths: Paths,
    /// The last congestion, change of route or the like, as a line of text.
    event: Vec<u8>,
    writer: TextWriter,
}

impl PathRows {
    /// None yet; events have local time.
    pub(super) fn new(offset_at: OffsetAt) -> Self {
        Self {
            paths: Paths::new(),
            event: Vec::new(),
            writer: TextWriter::of_zone(offset_at),
        }
    }
}

impl Rows for PathRows {
    type Key = FlowKey;
    type Row = Path;

    const COMMAND: &'static str = "hops";
    const COUNTED: &'static str = "probes";
    const OF: &'static str = "flows";
    const COLUMNS: &'static [Column] = &[
        Column::number("hop", 3, 1),
        Column::wide("responder", 16, 0),
        Column::number("sent", 7, 7),
        Column::text("loss", 19, 3),
        Column::number("last", 8, 5),
        Column::number("min", 8, 8),
        Column::number("p50", 8, 2),
        Column::number("p99", 8, 4),
        Column::number("stdev", 8, 9),
        Column::number("queue", 8, 6),
        Column::text("marks", 12, 10),
    ];
    const SORT_KEYS: &'static [SortKey<Path>] = &[
        SortKey {
            name: "most probes",
            title: "sent",
            key: Some(|path| path.probes),
        },
        SortKey {
            name: "most recent",
            title: "",
            key: None,
        },
        SortKey {
            name: "slowest p99",
            title: "p99",
            key: Some(Path::slowest_ns),
        },
    ];

    fn take(&mut self, record: &dyn Record) {
        self.paths.take(record);
        let has_row = record.downcast_ref::<HopProbe>().is_some()
            || record.downcast_ref::<HopSummary>().is_some();
        if !has_row {
            self.event.clear();
            self.writer.write(record, &mut self.event);
        }
    }

    fn rows(&self) -> &Recent<FlowKey, Path> {
        &self.paths.flows
    }

    fn counted(&self) -> u64 {
        self.paths.probes
    }

    fn event(&self) -> Option<&str> {
        let event = str::from_utf8(self.event.trim_ascii()).ok();
        event.filter(|event| !event.is_empty())
    }

    fn title(path: &Path) -> Option<String> {
        Some(path.flow.to_string())
    }

    fn height(path: &Path) -> usize {
        path.rows().count()
    }

    fn lines(&self, path: &Path) -> Vec<Vec<Cell>> {
        let rows = path.rows();
        rows.map(|(ttl, hop)| cells(path, ttl, hop)).collect()
    }
}

fn cells(path: &Path, ttl: usize, hop: &Hop) -> Vec<Cell> {
    let mut title = hop.title();
    if path.is_destination(hop) {
        title.push_str(" destination");
    }
    let why = hop.silence.filter(|_| hop.lost > 0);
    let mut loss = format!("{:.1}%", hop.loss_percent());
    if let Some(word) = why {
        loss.push(' ');
        loss.push_str(word);
    }
    vec![
        ttl.to_string().into(),
        title.into(),
        hop.sent.to_string().into(),
        loss.into(),
        duration(hop.last_ns).into(),
        duration(hop.rtts.min()).into(),
        duration(hop.rtts.quantile(0.5)).into(),
        duration(hop.rtts.quantile(0.99)).into(),
        duration(hop.deviation_ns()).into(),
        Cell::rated(duration(hop.queue_ns), Severity::of_queue(hop.queue_ns)),
        hop.marks.as_deref().unwrap_or_default().to_owned().into(),
    ]
}

#[cfg(test)]
mod tests {
    use fathom_record::Nanoseconds;
    use ratatui::crossterm::event::KeyCode;

    use super::*;
    use crate::hops::paths::tests::{change, probe, summary};
    use crate::table::{Ranked, TableView as _, drawn, press};

    fn filled() -> Ranked<PathRows> {
        let mut table = Ranked::new(PathRows::new(|_| 0), &["eth0".to_owned()]);
        for round in 0..20 {
            for ttl in 1..=3 {
                let answers = ttl != 2 || round % 4 == 0;
                let rtt_ns = u64::from(ttl) * 2_000_000 + round * 10_000;
                let answer = answers.then_some(([10, 78, ttl, 2], rtt_ns));
                table.take(&probe(5000, ttl, answer));
            }
            table.take(&probe(5000, 4, None));
        }
        table.take(&probe(5001, 1, None));
        let mut limited = summary(5000, 2);
        limited.probes_lost = 15;
        limited.silence = Some("rate limited");
        table.take(&limited);
        let mut named = summary(5000, 3);
        named.responder_name = Some("core1.example.net".into());
        named.as_number = Some(64_500);
        named.queue_ns = Some(Nanoseconds(90_000));
        named.marks = Some("mpls".into());
        table.take(&named);
        table
    }

    #[test]
    fn the_table_looks_like_this() {
        let mut table = filled();
        table.take(&change(5001));
        insta::assert_snapshot!(drawn(150, 10, &mut table, None));
    }

    #[test]
    fn a_narrow_and_low_terminal_is_made_use_of() {
        let mut table = filled();
        press(&mut table, &[KeyCode::Down]);
        insta::assert_snapshot!(drawn(80, 6, &mut table, Some("eth0 has disappeared")));
        drawn(1, 1, &mut table, None);
    }

    #[test]
    fn flows_are_ranked_as_chosen() {
        let mut table = filled();
        table.take(&probe(5001, 1, None));
        for (order, first) in ["5000", "5001", "5000"].into_iter().enumerate() {
            let text = drawn(150, 10, &mut table, None);
            let title = text.lines().nth(3).unwrap();
            assert!(title.contains(first), "{order}: {title}");
            press(&mut table, &[KeyCode::Char('s')]);
        }
    }
}
