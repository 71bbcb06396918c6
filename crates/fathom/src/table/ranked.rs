//! A table of ranked rows. A measurement brings its columns, and makes rows of its records.

use std::cmp::Reverse;
use std::hash::Hash;
use std::time::Instant;

use fathom_measure::Counts;
use fathom_record::Record;
use fathom_terminal::{Cell, Column, Order, Palette, Reaction, Table};
use ratatui::Frame;
use ratatui::crossterm::event::Event;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;

use super::recent::Recent;
use super::screen::{Rate, TableView};

/// What rows can be ranked by, the greatest first.
pub(crate) struct SortKey<R> {
    /// As in `slowest p99 first`.
    pub(crate) name: &'static str,
    /// The title of its column, if it has one.
    pub(crate) title: &'static str,
    /// `None`: as they come, the most recent first.
    pub(crate) key: Option<fn(&R) -> u64>,
}

/// Rows that are made of records. A copy of them is shown while the table is paused.
pub(crate) trait Rows: Clone {
    /// What tells rows apart.
    type Key: Hash + Eq + Copy;
    type Row: Clone + 'static;

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

    /// The cells of these lines, one for each column.
    fn lines(&self, row: &Self::Row) -> Vec<Vec<Cell>>;
}

/// Rows as a table wants them.
struct Shown<'a, R>(&'a R);

impl<R: Rows> fathom_terminal::Rows for Shown<'_, R> {
    type Row = R::Row;

    fn columns(&self) -> &[Column] {
        R::COLUMNS
    }

    fn orders(&self) -> Vec<Order> {
        let order = |key: &SortKey<R::Row>| Order {
            name: key.name,
            column: R::COLUMNS.iter().position(|it| it.title == key.title),
        };
        R::SORT_KEYS.iter().map(order).collect()
    }

    fn all(&self) -> Vec<&R::Row> {
        self.0.rows().all().collect()
    }

    fn sort(&self, rows: &mut [&R::Row], order: usize) {
        if let Some(key) = R::SORT_KEYS[order].key {
            rows.sort_by_cached_key(|row| Reverse(key(row)));
        }
    }

    fn title(&self, row: &R::Row) -> Option<String> {
        R::title(row)
    }

    fn height(&self, row: &R::Row) -> usize {
        R::height(row)
    }

    fn lines(&self, row: &R::Row) -> Vec<Vec<Cell>> {
        self.0.lines(row)
    }
}

/// The table, with what stands around the rows.
pub(crate) struct Ranked<R> {
    rows: R,
    /// What they were when the user paused.
    held: Option<R>,
    table: Table,
    palette: Palette,
    interfaces: String,
    rate: Rate,
    counts: String,
}

impl<R: Rows> Ranked<R> {
    /// A table for these interfaces.
    pub(crate) fn new(rows: R, interfaces: &[String]) -> Self {
        Self {
            rows,
            held: None,
            table: Table::scrolling(),
            palette: Palette::of_environment(),
            interfaces: interfaces.join(", "),
            rate: Rate::new(),
            counts: String::new(),
        }
    }

    fn headline(&self, rows: &R) -> String {
        let left_out = match rows.rows().left_out {
            0 => String::new(),
            count => format!(" ({count} left out)"),
        };
        format!(
            "fathom {}  {}  {:.0} {}/s  {} {}{left_out}  {}",
            R::COMMAND,
            self.interfaces,
            self.rate.per_second,
            R::COUNTED,
            rows.rows().all().count(),
            R::OF,
            self.table.chosen(&Shown(rows)),
        )
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

    fn draw(&mut self, frame: &mut Frame<'_>, message: Option<&str>) {
        let [head, below, table, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Min(1),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        let rows = self.held.as_ref().unwrap_or(&self.rows);
        let event = rows.event().unwrap_or(&self.counts);
        let headline = Line::raw(self.headline(rows)).style(Modifier::BOLD);
        frame.render_widget(headline, head);
        frame.render_widget(Line::raw(event), below);
        self.table.draw(frame, table, &Shown(rows), self.palette);
        let foot_text = match self.table.prompt() {
            Some(prompt) => prompt,
            None => message.unwrap_or(Table::SHORT_KEYS).to_owned(),
        };
        let dim = Style::new().add_modifier(Modifier::DIM);
        frame.render_widget(Line::raw(foot_text).style(dim), foot);
        self.table.draw_help(frame, frame.area(), &[]);
    }

    fn on_event(&mut self, event: &Event) -> Reaction {
        let rows = self.held.as_ref().unwrap_or(&self.rows);
        let reaction = self.table.on_event(event, &Shown(rows));
        match (self.table.is_paused(), &self.held) {
            (true, None) => self.held = Some(self.rows.clone()),
            (false, Some(_)) => self.held = None,
            _ => {}
        }
        reaction
    }
}

#[cfg(test)]
pub(crate) mod tests;
