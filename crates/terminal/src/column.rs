//! Columns, and which of them a terminal has room for.

use fathom_record::format::display_duration;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthChar;

use crate::palette::{Palette, Severity};

/// Space between columns.
pub(crate) const SPACING: u16 = 2;

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// What stands above it.
    pub title: &'static str,
    width: u16,
    /// Those with the smallest are left out last.
    rank: u8,
    side: Side,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    /// Numbers, so that they can be compared.
    Right,
    /// At the left, with all the room that is left.
    Wide,
}

impl Column {
    const fn new(title: &'static str, width: u16, rank: u8, side: Side) -> Self {
        Self {
            title,
            width,
            rank,
            side,
        }
    }

    /// A text. Columns with the smallest rank are left out last.
    pub const fn text(title: &'static str, width: u16, rank: u8) -> Self {
        Self::new(title, width, rank, Side::Left)
    }

    /// A number, or another quantity.
    pub const fn number(title: &'static str, width: u16, rank: u8) -> Self {
        Self::new(title, width, rank, Side::Right)
    }

    /// What takes at least so much, and what is left; of a table, one.
    pub const fn wide(title: &'static str, width: u16, rank: u8) -> Self {
        Self::new(title, width, rank, Side::Wide)
    }

    /// A text as wide as the column, with `spare` more for the wide one.
    fn fit(&self, text: &str, spare: u16) -> String {
        let extra = if self.side == Side::Wide { spare } else { 0 };
        let width = usize::from(self.width + extra);
        let mut used = 0;
        let mut shown = String::new();
        for character in text.chars().map(printable) {
            used += character.width().unwrap_or_default();
            if used > width {
                used -= character.width().unwrap_or_default();
                break;
            }
            shown.push(character);
        }
        let blank = " ".repeat(width - used);
        match self.side {
            Side::Right => blank + &shown,
            Side::Left | Side::Wide => shown + &blank,
        }
    }

    /// How wide the column is, with `spare` more for the wide one.
    pub(crate) fn width(&self, spare: u16) -> u16 {
        self.width + if self.side == Side::Wide { spare } else { 0 }
    }
}

/// Names come from processes and packets: what a terminal would obey is not shown.
fn printable(character: char) -> char {
    if character.is_control() {
        char::REPLACEMENT_CHARACTER
    } else {
        character
    }
}

/// What a column shows of a row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cell {
    /// The text; it is cut where the column ends.
    pub text: String,
    /// How bad it is.
    pub severity: Severity,
}

impl Cell {
    /// A text, and how bad what it says is.
    pub fn rated(text: String, severity: Severity) -> Self {
        Self { text, severity }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::rated(text, Severity::Normal)
    }
}

/// A duration as the text of a column; nothing where there is none.
pub fn duration(ns: Option<u64>) -> String {
    ns.map_or_else(String::new, |ns| display_duration(ns).to_string())
}

/// A number as the text of a column, with a prefix of the SI from 1000 on, such as `12.3M`.
pub fn scaled(mut rate: f64) -> String {
    for unit in ["", "k", "M", "G"] {
        if rate < 999.5 {
            let digits = usize::from(!unit.is_empty() && rate < 99.95);
            return format!("{rate:.digits$}{unit}");
        }
        rate /= 1000.0;
    }
    format!("{rate:.1}T")
}

/// A part of a whole as the text of a column; nothing where there is none.
pub fn percent(ratio: Option<f64>) -> String {
    ratio.map_or_else(String::new, |ratio| format!("{:.2} %", ratio * 100.0))
}

/// The positions of those that fit into this width together, in their order.
pub(crate) fn fitting(columns: &[Column], width: u16) -> Vec<usize> {
    let mut by_rank: Vec<_> = (0..columns.len()).collect();
    by_rank.sort_by_key(|&position| columns[position].rank);
    let mut used = 0;
    let fits = |&position: &usize| {
        used += columns[position].width + SPACING;
        used <= width + SPACING
    };
    let mut chosen: Vec<_> = by_rank.into_iter().take_while(fits).collect();
    chosen.sort_unstable();
    chosen
}

/// The width that the columns that were chosen leave.
pub(crate) fn spare(columns: &[Column], chosen: &[usize], width: u16) -> u16 {
    let used: u16 = chosen
        .iter()
        .map(|&position| columns[position].width + SPACING)
        .sum();
    width.saturating_sub(used.saturating_sub(SPACING))
}

/// The cells of the columns that were chosen, as a line of this width.
pub(crate) fn aligned(
    columns: &[Column],
    chosen: &[usize],
    cells: &[Cell],
    width: u16,
    palette: Palette,
) -> Line<'static> {
    let spare = spare(columns, chosen, width);
    let mut spans = Vec::new();
    for &position in chosen {
        if !spans.is_empty() {
            spans.push(Span::raw(" ".repeat(SPACING.into())));
        }
        let cell = &cells[position];
        let text = columns[position].fit(&cell.text, spare);
        spans.push(Span::styled(text, palette.style(cell.severity)));
    }
    Line::from(spans)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 3] = [
        Column::text("method", 6, 2),
        Column::wide("flow", 8, 0),
        Column::number("rtt", 5, 1),
    ];

    fn line(texts: [&str; 3], width: u16) -> String {
        let cells = texts.map(|text| Cell::from(text.to_owned()));
        let chosen = fitting(&COLUMNS, width);
        aligned(&COLUMNS, &chosen, &cells, width, Palette::plain()).to_string()
    }

    #[test]
    fn a_narrow_terminal_shows_what_matters_most() {
        assert_eq!(fitting(&COLUMNS, 200), [0, 1, 2]);
        assert_eq!(fitting(&COLUMNS, 22), [1, 2]);
        assert_eq!(fitting(&COLUMNS, 8), [1]);
        assert_eq!(fitting(&COLUMNS, 3), [0; 0]);
    }

    #[test]
    fn texts_stand_below_each_other() {
        let texts = ["echo", "10.0.0.1 > 10.0.1.1", "20 ms"];
        assert_eq!(line(texts, 25), "echo    10.0.0.1 >  20 ms");
        assert_eq!(line(texts, 20), "10.0.0.1 > 10  20 ms");
    }

    #[test]
    fn names_of_others_do_not_shift_columns_nor_reach_the_terminal() {
        assert_eq!(
            line(["a\x1b[2J", "東京のサーバ", "1"], 20),
            "東京のサーバ       1"
        );
        assert_eq!(
            line(["a\x1b[2J", "x", "1"], 23),
            "a\u{fffd}[2J   x             1"
        );
        // Half of a wide character is not shown.
        assert_eq!(line(["", "x東京のサーバx", "1"], 15), "x東京の       1");
    }

    #[test]
    fn numbers_have_prefixes() {
        let texts = [0.0, 999.0, 999.9, 12_345.0, 999_960.0, 2.5e9, 7e12].map(scaled);
        assert_eq!(texts, ["0", "999", "1.0k", "12.3k", "1.0M", "2.5G", "7.0T"]);
        assert_eq!(percent(Some(0.0123)), "1.23 %");
    }
}
