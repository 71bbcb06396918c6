//! The table of paths that is shown on a terminal: every flow with its hops below it.

use std::cmp::Reverse;
use std::time::Instant;

use fathom_measure::hops::Report;
use fathom_record::format::{OffsetAt, Sink, TextWriter, display_duration};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};

use super::paths::{Hop, Path, Paths};
use crate::table::{Rate, Shown, fitting_of};

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    Ttl,
    Responder,
    Sent,
    Lost,
    Last,
    Min,
    Median,
    P99,
    Queue,
    Marks,
}

use Column::{Last, Lost, Marks, Median, Min, P99, Queue, Responder, Sent, Ttl};

const ALL: [Column; 10] = [
    Ttl, Responder, Sent, Lost, Last, Min, Median, P99, Queue, Marks,
];
/// The first of these are left out last.
const BY_IMPORTANCE: [Column; 10] = [
    Responder, Ttl, Median, Lost, P99, Last, Queue, Sent, Min, Marks,
];
const SPACING: usize = 2;

impl Column {
    /// The least that it takes; a responder takes what is left.
    fn width(self) -> u16 {
        match self {
            Ttl => 3,
            Responder => 16,
            Sent => 7,
            Lost => 19,
            Last | Min | Median | P99 | Queue => 8,
            Marks => 12,
        }
    }

    fn title(self) -> &'static str {
        match self {
            Ttl => "hop",
            Responder => "responder",
            Sent => "sent",
            Lost => "lost",
            Last => "last",
            Min => "min",
            Median => "p50",
            P99 => "p99",
            Queue => "queue",
            Marks => "marks",
        }
    }

    /// Numbers stand at the right, so that they can be compared.
    fn is_number(self) -> bool {
        !matches!(self, Responder | Lost | Marks)
    }

    fn text(self, ttl: usize, hop: &Hop) -> String {
        let duration =
            |ns: Option<u64>| ns.map_or_else(String::new, |ns| display_duration(ns).to_string());
        match self {
            Ttl => ttl.to_string(),
            Responder => hop.title(),
            Sent => hop.sent.to_string(),
            Lost => match (hop.lost, hop.silence) {
                (0, _) => "0".to_owned(),
                (lost, Some(why)) => format!("{lost} {why}"),
                (lost, None) => lost.to_string(),
            },
            Last => duration(hop.last_ns),
            Min => duration(hop.rtts.min()),
            Median => duration(hop.rtts.quantile(0.5)),
            P99 => duration(hop.rtts.quantile(0.99)),
            Queue => duration(hop.queue_ns),
            Marks => hop.marks.as_deref().unwrap_or_default().to_owned(),
        }
    }
}

/// By what flows are sorted, the greatest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Probes,
    Recent,
    Slowest,
}

impl Order {
    fn next(self) -> Self {
        match self {
            Self::Probes => Self::Recent,
            Self::Recent => Self::Slowest,
            Self::Slowest => Self::Probes,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Probes => "most probes",
            Self::Recent => "most recent",
            Self::Slowest => "slowest p99",
        }
    }
}

/// The table.
pub(super) struct HopsTable {
    paths: Paths,
    interfaces: String,
    rate: Rate,
    order: Order,
    /// The last congestion, change of route or the like, as a line of text.
    event: String,
    writer: TextWriter,
    /// Lines scrolled past.
    offset: usize,
}

impl HopsTable {
    /// An empty one, with the time of a place.
    pub(super) fn new(interfaces: &[String], offset_at: OffsetAt) -> Self {
        Self {
            paths: Paths::new(),
            interfaces: interfaces.join(", "),
            rate: Rate::new(),
            order: Order::Probes,
            event: String::new(),
            writer: TextWriter::of_zone(offset_at),
            offset: 0,
        }
    }

    /// Takes what the measurement tells.
    pub(super) fn take(&mut self, report: &Report) {
        self.paths.take(report);
        if !matches!(report, Report::Probe(_) | Report::Hop(_)) {
            let mut line = Vec::new();
            self.writer.write(report.record(), &mut line);
            self.event = String::from_utf8_lossy(line.trim_ascii()).into_owned();
        }
    }

    /// What is to be drawn at `now`.
    pub(super) fn update(&mut self, now: Instant) {
        self.rate.update(now, self.paths.probes);
    }

    fn headline(&self) -> String {
        let left_out = match self.paths.left_out {
            0 => String::new(),
            count => format!(" ({count} left out)"),
        };
        format!(
            "fathom hops  {}  {:.0} probes/s  {} flows{left_out}  {} first",
            self.interfaces,
            self.rate.per_second,
            self.paths.len(),
            self.order.name(),
        )
    }

    /// In the order that was chosen; equals stay in the order of their last probes, newest first.
    fn sorted(&self) -> Vec<&Path> {
        let mut paths: Vec<_> = self.paths.all().collect();
        match self.order {
            Order::Recent => {}
            Order::Probes => paths.sort_by_key(|path| Reverse(path.probes)),
            Order::Slowest => paths.sort_by_cached_key(|path| Reverse(path.slowest_ns())),
        }
        paths
    }

    /// As many as there are lines, of each flow one more than it has hops.
    fn height(&self) -> usize {
        self.paths.all().map(|path| 1 + path.hops().count()).sum()
    }

    fn lines(&self, area: Rect) -> Vec<Line<'static>> {
        let columns = fitting_of(&ALL, &BY_IMPORTANCE, Column::width, area.width);
        let row = |ttl, hop: &Hop| {
            let texts = columns.iter().map(|column| column.text(ttl, hop)).collect();
            Line::raw(aligned(&columns, texts, area.width))
        };
        let of_path = |path: &Path| {
            let title = Line::raw(path.flow.to_string()).style(Modifier::BOLD);
            let rows: Vec<_> = path.hops().map(|(ttl, hop)| row(ttl, hop)).collect();
            std::iter::once(title).chain(rows)
        };
        self.sorted()
            .into_iter()
            .flat_map(of_path)
            .skip(self.offset)
            .take(area.height.into())
            .collect()
    }
}

impl Shown for HopsTable {
    fn draw(&self, frame: &mut Frame<'_>, message: Option<&str>) {
        let [head, event, titles, rows, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Min(0),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        frame.render_widget(Line::raw(self.headline()).style(Modifier::BOLD), head);
        frame.render_widget(Line::raw(self.event.as_str()), event);
        let columns = fitting_of(&ALL, &BY_IMPORTANCE, Column::width, titles.width);
        let names = columns.iter().map(|column| column.title().to_owned());
        let names = aligned(&columns, names.collect(), titles.width);
        let underlined = Style::new().add_modifier(Modifier::UNDERLINED);
        frame.render_widget(Line::raw(names).style(underlined), titles);
        frame.render_widget(Text::from(self.lines(rows)), rows);
        let keys = "q quit  s sort  arrows, page up and down scroll";
        let foot_text = message.unwrap_or(keys).to_owned();
        frame.render_widget(Line::raw(foot_text).style(Modifier::DIM), foot);
    }

    fn scroll(&mut self, rows: isize) {
        let last = self.height().saturating_sub(1);
        self.offset = self.offset.saturating_add_signed(rows).min(last);
    }

    fn sort_differently(&mut self) {
        self.order = self.order.next();
        self.offset = 0;
    }
}

/// The texts of a row at their places.
fn aligned(columns: &[Column], texts: Vec<String>, width: u16) -> String {
    let others: usize = columns
        .iter()
        .filter(|column| **column != Responder)
        .map(|column| usize::from(column.width()) + SPACING)
        .sum();
    let mut line = String::new();
    for (column, text) in columns.iter().zip(texts) {
        let width = match column {
            Responder => usize::from(width).saturating_sub(others),
            column => column.width().into(),
        };
        let text: String = text.chars().take(width).collect();
        if !line.is_empty() {
            line.push_str("  ");
        }
        let padded = if column.is_number() {
            format!("{text:>width$}")
        } else {
            format!("{text:<width$}")
        };
        line.push_str(&padded);
    }
    line
}

#[cfg(test)]
mod tests {
    use fathom_record::Nanoseconds;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::hops::paths::tests::{change, probe, summary};

    fn drawn(width: u16, height: u16, table: &HopsTable, message: Option<&str>) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| table.draw(frame, message)).unwrap();
        terminal.backend().to_string()
    }

    fn filled() -> HopsTable {
        let mut table = HopsTable::new(&["eth0".to_owned()], |_| 0);
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
        table.take(&Report::Hop(limited));
        let mut named = summary(5000, 3);
        named.responder_name = Some("core1.example.net".into());
        named.as_number = Some(64_500);
        named.queue_ns = Some(Nanoseconds(90_000));
        named.marks = Some("mpls".into());
        table.take(&Report::Hop(named));
        table
    }

    #[test]
    fn the_table_looks_like_this() {
        let mut table = filled();
        table.take(&change(5001));
        insta::assert_snapshot!(drawn(150, 10, &table, None));
    }

    #[test]
    fn a_narrow_and_low_terminal_is_made_use_of() {
        let mut table = filled();
        table.scroll(1);
        insta::assert_snapshot!(drawn(80, 6, &table, Some("eth0 has disappeared")));
        drawn(1, 1, &table, None);
    }

    #[test]
    fn scrolling_ends_at_the_ends() {
        let mut table = filled();
        table.scroll(-5);
        assert_eq!(table.offset, 0);
        table.scroll(50);
        // Two flows, one of which has three hops that are shown.
        assert_eq!(table.offset, 4);
        table.sort_differently();
        assert_eq!((table.offset, table.order), (0, Order::Recent));
        let ports = |table: &HopsTable| -> Vec<u16> {
            let paths = table.sorted();
            paths.iter().map(|path| path.flow.source_port).collect()
        };
        assert_eq!(ports(&table), [5000, 5001]);
        table.take(&probe(5001, 1, None));
        assert_eq!(ports(&table), [5001, 5000]);
        table.sort_differently();
        assert_eq!(ports(&table), [5000, 5001]);
    }
}
