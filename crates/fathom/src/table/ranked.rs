//! A table of ranked rows. A measurement brings its columns, and makes rows of its records.

use std::cmp::Reverse;
use std::hash::Hash;
use std::time::Instant;

use fathom_measure::Counts;
use fathom_record::Record;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};

use super::columns::{Column, aligned, fitting};
use super::recent::Recent;
use super::screen::{Rate, TableView};

const KEYS: &str = "q quit  s sort  arrows, page up and down scroll";

/// What rows can be ranked by, the greatest first.
pub(crate) struct SortKey<R> {
    /// As in `slowest p99 first`.
    pub(crate) name: &'static str,
    /// `None`: as they come, the most recent first.
    pub(crate) key: Option<fn(&R) -> u64>,
}

/// Rows that are made of records.
pub(crate) trait Rows {
    /// What tells rows apart.
    type Key: Hash + Eq + Copy;
    type Row: 'static;

    const COMMAND: &'static str;
    /// What is counted, a second.
    const COUNTED: &'static str;
    /// What a row stands for.
    const OF: &'static str;
    /// From left to right.
    const COLUMNS: &'static [Column];
    /// The first at the start, then one after the other.
    const SORT_KEYS: &'static [SortKey<Self::Row>];

    /// Takes a record in, if it is of a kind that is shown.
    fn take(&mut self, record: &dyn Record);

    fn rows(&self) -> &Recent<Self::Key, Self::Row>;

    /// How much was counted since the start.
    fn counted(&self) -> u64;

    /// Makes ready to be drawn.
    fn settle(&mut self) {}

    /// What happened last, if it is told in a line of its own.
    fn event(&self) -> Option<&str> {
        None
    }

    /// The line above those of a row.
    fn title(_row: &Self::Row) -> Option<String> {
        None
    }

    /// How many lines the row has below its title.
    fn height(_row: &Self::Row) -> usize {
        1
    }

    /// The texts of these lines, one for each column.
    fn lines(&self, row: &Self::Row) -> Vec<Vec<String>>;
}

/// The table, with what stands around the rows.
pub(crate) struct Ranked<R> {
    rows: R,
    interfaces: String,
    rate: Rate,
    counts: String,
    /// Position in the list of orders.
    order: usize,
    /// Lines scrolled past.
    offset: usize,
}

impl<R: Rows> Ranked<R> {
    /// A table for these interfaces.
    pub(crate) fn new(rows: R, interfaces: &[String]) -> Self {
        Self {
            rows,
            interfaces: interfaces.join(", "),
            rate: Rate::new(),
            counts: String::new(),
            order: 0,
            offset: 0,
        }
    }

    /// In the order that was chosen; equals stay as they come.
    fn sorted(&self) -> Vec<&R::Row> {
        let mut rows: Vec<_> = self.rows.rows().all().collect();
        if let Some(key) = R::SORT_KEYS[self.order].key {
            rows.sort_by_cached_key(|row| Reverse(key(row)));
        }
        rows
    }

    fn height_of(row: &R::Row) -> usize {
        usize::from(R::title(row).is_some()) + R::height(row)
    }

    fn headline(&self) -> String {
        let left_out = match self.rows.rows().left_out {
            0 => String::new(),
            count => format!(" ({count} left out)"),
        };
        format!(
            "fathom {}  {}  {:.0} {}/s  {} {}{left_out}  {} first",
            R::COMMAND,
            self.interfaces,
            self.rate.per_second,
            R::COUNTED,
            self.rows.rows().all().count(),
            R::OF,
            R::SORT_KEYS[self.order].name,
        )
    }

    /// Those that an area shows.
    fn lines(&self, columns: &[usize], area: Rect) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        let mut above = self.offset;
        for row in self.sorted() {
            let height = Self::height_of(row);
            if above >= height {
                above -= height;
                continue;
            }
            let title = R::title(row).map(|title| Line::raw(title).style(Modifier::BOLD));
            let texts = self.rows.lines(row).into_iter();
            let texts =
                texts.map(|texts| Line::raw(aligned(R::COLUMNS, columns, &texts, area.width)));
            lines.extend(title.into_iter().chain(texts).skip(above));
            above = 0;
            if lines.len() >= area.height.into() {
                break;
            }
        }
        lines
    }
}

impl<R: Rows> TableView for Ranked<R> {
    fn take(&mut self, record: &dyn Record) {
        self.rows.take(record);
    }

    fn update(&mut self, now: Instant, counts: &Counts) {
        self.rate.update(now, self.rows.counted());
        self.rows.settle();
        let named = counts.named.iter();
        let named = named.map(|(name, count)| format!("  {name} {count}"));
        self.counts = counts.headline() + &named.collect::<String>();
    }

    fn draw(&self, frame: &mut Frame<'_>, message: Option<&str>) {
        let [head, below, titles, rows, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Min(0),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        let columns = fitting(R::COLUMNS, titles.width);
        let names: Vec<_> = R::COLUMNS
            .iter()
            .map(|column| column.title.to_owned())
            .collect();
        let names = aligned(R::COLUMNS, &columns, &names, titles.width);
        let underlined = Style::new().add_modifier(Modifier::UNDERLINED);
        let event = self.rows.event().unwrap_or(&self.counts);
        frame.render_widget(Line::raw(self.headline()).style(Modifier::BOLD), head);
        frame.render_widget(Line::raw(event), below);
        frame.render_widget(Line::raw(names).style(underlined), titles);
        frame.render_widget(Text::from(self.lines(&columns, rows)), rows);
        let foot_text = message.unwrap_or(KEYS);
        frame.render_widget(Line::raw(foot_text).style(Modifier::DIM), foot);
    }

    fn scroll(&mut self, rows: isize) {
        let height: usize = self.rows.rows().all().map(Self::height_of).sum();
        let last = height.saturating_sub(1);
        self.offset = self.offset.saturating_add_signed(rows).min(last);
    }

    fn sort_differently(&mut self) {
        self.order = (self.order + 1) % R::SORT_KEYS.len();
        self.offset = 0;
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    /// What a terminal of this size shows.
    pub(crate) fn drawn(
        width: u16,
        height: u16,
        table: &dyn TableView,
        message: Option<&str>,
    ) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| table.draw(frame, message)).unwrap();
        terminal.backend().to_string()
    }

    /// Numbers, each with as many lines below its title.
    struct Numbers(Recent<u64, u64>);

    impl Rows for Numbers {
        type Key = u64;
        type Row = u64;

        const COMMAND: &'static str = "count";
        const COUNTED: &'static str = "numbers";
        const OF: &'static str = "numbers";
        const COLUMNS: &'static [Column] = &[Column::wide("line", 4, 0)];
        const SORT_KEYS: &'static [SortKey<u64>] = &[
            SortKey {
                name: "greatest",
                key: Some(|number| *number),
            },
            SortKey {
                name: "most recent",
                key: None,
            },
        ];

        fn take(&mut self, _: &dyn Record) {}

        fn rows(&self) -> &Recent<u64, u64> {
            &self.0
        }

        fn counted(&self) -> u64 {
            0
        }

        fn title(row: &u64) -> Option<String> {
            Some(row.to_string())
        }

        fn height(row: &u64) -> usize {
            *row as usize
        }

        fn lines(&self, row: &u64) -> Vec<Vec<String>> {
            (0..*row)
                .map(|line| vec![format!("{row}.{line}")])
                .collect()
        }
    }

    fn shown(table: &Ranked<Numbers>, height: u16) -> Vec<String> {
        let lines = table.lines(&[0], Rect::new(0, 0, 4, height));
        lines
            .iter()
            .map(|line| line.to_string().trim().to_owned())
            .collect()
    }

    #[test]
    fn rows_are_ranked_and_scrolled_by_lines_to_the_ends() {
        let mut numbers = Numbers(Recent::new());
        for number in [2, 1] {
            numbers.0.row(number, || number);
        }
        let mut table = Ranked::new(numbers, &["eth0".to_owned()]);
        assert_eq!(shown(&table, 9), ["2", "2.0", "2.1", "1", "1.0"]);
        table.scroll(2);
        // What does not fit is cut off by the terminal.
        assert_eq!(shown(&table, 2)[..2], ["2.1", "1"]);
        table.scroll(50);
        assert_eq!(shown(&table, 9), ["1.0"]);
        table.scroll(isize::MIN);
        assert_eq!(table.offset, 0);
        table.scroll(1);
        table.sort_differently();
        assert_eq!(shown(&table, 9), ["1", "1.0", "2", "2.0", "2.1"]);
        table.sort_differently();
        assert_eq!(table.order, 0);
    }
}
