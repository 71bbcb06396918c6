//! A table of ranked rows, and what the user chose of it.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Position, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};

use crate::column::{Cell, Column, SPACING, aligned, fitting, spare};
use crate::help::{Key, draw_help};
use crate::palette::Palette;

/// What rows can be ranked by.
#[derive(Debug, Clone, Copy)]
pub struct Order {
    /// As in `slowest p99 first`.
    pub name: &'static str,
    /// The position of the column whose title, when clicked, chooses it.
    pub column: Option<usize>,
}

/// What a table shows.
pub trait Rows {
    /// A row.
    type Row;

    /// From left to right.
    fn columns(&self) -> &[Column];

    /// The first at the start, then one after the other; without any, rows stay as they come.
    fn orders(&self) -> Vec<Order> {
        Vec::new()
    }

    /// All, as they come.
    fn all(&self) -> Vec<&Self::Row>;

    /// Puts rows into an order, by its position: what users look for first. Equals stay as they
    /// come.
    fn sort(&self, _rows: &mut [&Self::Row], _order: usize) {}

    /// What stays the same of a row, so that it remains selected.
    fn key(&self, _row: &Self::Row) -> String {
        String::new()
    }

    /// The line above those of a row.
    fn title(&self, _row: &Self::Row) -> Option<String> {
        None
    }

    /// How many lines the row has below its title.
    fn height(&self, _row: &Self::Row) -> usize {
        1
    }

    /// The cells of these lines, one for each column.
    fn lines(&self, row: &Self::Row) -> Vec<Vec<Cell>>;

    /// Does the row contain a text, which is in lower case? Columns that are left out count, too.
    fn contains(&self, row: &Self::Row, wanted: &str) -> bool {
        let has = |text: &str| text.to_lowercase().contains(wanted);
        self.title(row).is_some_and(|title| has(&title))
            || self.lines(row).iter().flatten().any(|cell| has(&cell.text))
    }
}

/// Where keys go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Keys {
    #[default]
    Rows,
    Filter,
    /// Any closes it.
    Help,
}

/// What the user chose of a table, and where it was drawn.
#[derive(Debug, Default)]
pub struct Table {
    is_selecting: bool,
    /// Position in the list of orders.
    pub(crate) order: usize,
    pub(crate) is_reversed: bool,
    pub(crate) filter: String,
    pub(crate) is_paused: bool,
    pub(crate) keys: Keys,
    /// Lines scrolled past.
    pub(crate) offset: usize,
    /// The selected row's key, and its place among those that are shown.
    pub(crate) selected: Option<(String, usize)>,
    /// As of the last drawing.
    pub(crate) titles: Rect,
    pub(crate) rows: Rect,
    /// The titles that were drawn: the column, and its first and last cell.
    pub(crate) drawn: Vec<(usize, u16, u16)>,
}

impl Table {
    /// One whose lines are scrolled.
    pub fn scrolling() -> Self {
        Self::default()
    }

    /// One of whose rows, which have one line each, one is selected.
    pub fn selecting() -> Self {
        Self {
            is_selecting: true,
            ..Self::default()
        }
    }

    /// Should what is shown stay as it is?
    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Does it take all keys, for the filter or since the help is shown?
    pub fn takes_all_keys(&self) -> bool {
        self.keys != Keys::Rows
    }

    /// What rows must contain, in any case of letters.
    pub fn filter(&self) -> &str {
        &self.filter
    }

    /// Shows only rows that contain this text.
    pub fn set_filter(&mut self, text: &str) {
        text.clone_into(&mut self.filter);
        self.offset = 0;
    }

    /// The position of the order of rows, and whether it is reversed.
    pub fn order(&self) -> (usize, bool) {
        (self.order, self.is_reversed)
    }

    /// The key of the row that is selected.
    pub fn selected(&self) -> Option<&str> {
        self.selected.as_ref().map(|(key, _)| key.as_str())
    }

    /// What was chosen, for the headline: `paused  filter "x"  most samples first`.
    pub fn chosen(&self, rows: &impl Rows) -> String {
        let mut parts = Vec::new();
        if self.is_paused {
            parts.push("paused".to_owned());
        }
        if !self.filter.is_empty() {
            parts.push(format!("filter \"{}\"", self.filter));
        }
        if let Some(order) = rows.orders().get(self.order) {
            let end = if self.is_reversed { "last" } else { "first" };
            parts.push(format!("{} {end}", order.name));
        }
        parts.join("  ")
    }

    /// The last line while a filter is typed.
    pub fn prompt(&self) -> Option<String> {
        let prompt = || format!("/{}\u{2588}  Enter keeps it, Esc clears it", self.filter);
        (self.keys == Keys::Filter).then(prompt)
    }

    /// Those that are to be shown, in their order.
    pub fn shown<'a, R: Rows>(&self, rows: &'a R) -> Vec<&'a R::Row> {
        let mut shown = rows.all();
        if !self.filter.is_empty() {
            let wanted = self.filter.to_lowercase();
            shown.retain(|row| rows.contains(row, &wanted));
        }
        rows.sort(&mut shown, self.order);
        if self.is_reversed {
            shown.reverse();
        }
        shown
    }

    /// Draws titles and rows.
    pub fn draw<R: Rows>(&mut self, frame: &mut Frame<'_>, area: Rect, rows: &R, palette: Palette) {
        let [titles, body] =
            Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
        (self.titles, self.rows) = (titles, body);
        let columns = rows.columns();
        let chosen = fitting(columns, area.width);
        let names: Vec<_> = columns
            .iter()
            .map(|it| it.title.to_owned().into())
            .collect();
        let names = aligned(columns, &chosen, &names, area.width, palette);
        let underlined = Style::new().add_modifier(Modifier::UNDERLINED);
        frame.render_widget(names.style(underlined), titles);
        self.remember_titles(columns, &chosen);
        let shown = self.shown(rows);
        self.follow_selected(&shown, rows);
        let lines = self.lines(&shown, rows, &chosen, palette);
        frame.render_widget(Text::from(lines), body);
    }

    /// Draws the help, if it is asked for: these keys, after those of any table.
    pub fn draw_help(&self, frame: &mut Frame<'_>, area: Rect, keys: &[Key]) {
        if self.keys == Keys::Help {
            draw_help(frame, area, &[Self::KEYS, keys].concat());
        }
    }

    fn remember_titles(&mut self, columns: &[Column], chosen: &[usize]) {
        let spare = spare(columns, chosen, self.titles.width);
        self.drawn.clear();
        let mut begin = self.titles.x;
        for &position in chosen {
            let end = begin + columns[position].width(spare);
            self.drawn.push((position, begin, end));
            begin = end + SPACING;
        }
    }

    /// The column whose title is at this place.
    pub(crate) fn title_at(&self, place: Position) -> Option<usize> {
        let is_there = |(_, begin, end): &&(usize, u16, u16)| (*begin..*end).contains(&place.x);
        let titles = self.titles.contains(place).then_some(&self.drawn)?;
        titles.iter().find(is_there).map(|(column, ..)| *column)
    }

    /// The selected row stays selected wherever it moves, and in sight. Where it has gone, that in
    /// its place is selected.
    fn follow_selected<R: Rows>(&mut self, shown: &[&R::Row], rows: &R) {
        if !self.is_selecting {
            return;
        }
        let (key, old) = self.selected.take().unwrap_or_default();
        let found = shown.iter().position(|row| rows.key(row) == key);
        let place = found.unwrap_or(old).min(shown.len().saturating_sub(1));
        self.selected = shown.get(place).map(|row| (rows.key(row), place));
        let height = usize::from(self.rows.height).max(1);
        let first = (place + 1).saturating_sub(height);
        let last = shown.len().saturating_sub(height).min(place);
        self.offset = self.offset.clamp(first.min(last), last.max(first));
    }

    /// The lines that there is room for.
    pub(crate) fn lines<R: Rows>(
        &self,
        shown: &[&R::Row],
        rows: &R,
        chosen: &[usize],
        palette: Palette,
    ) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        let mut above = self.offset;
        let selected = self.selected.as_ref().map(|(_, place)| *place);
        for (place, row) in shown.iter().enumerate() {
            let height = height_of(rows, row);
            if above >= height {
                above -= height;
                continue;
            }
            let title = rows.title(row);
            let title = title.map(|title| Line::raw(title).style(Modifier::BOLD));
            let cells = rows.lines(row).into_iter();
            let cells = cells
                .map(|cells| aligned(rows.columns(), chosen, &cells, self.rows.width, palette));
            let style = match selected {
                Some(selected) if selected == place => Style::new().reversed(),
                _ => Style::new(),
            };
            let own = title.into_iter().chain(cells).skip(above);
            lines.extend(own.map(|line| line.patch_style(style)));
            above = 0;
            if lines.len() >= self.rows.height.into() {
                break;
            }
        }
        lines
    }
}

/// Lines of a row.
pub(crate) fn height_of<R: Rows>(rows: &R, row: &R::Row) -> usize {
    usize::from(rows.title(row).is_some()) + rows.height(row)
}
