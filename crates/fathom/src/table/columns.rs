//! Columns, and which of them a terminal has room for.

use fathom_record::format::display_duration;

/// Space between columns.
const SPACING: u16 = 2;

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    pub(super) title: &'static str,
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
    pub(crate) const fn text(title: &'static str, width: u16, rank: u8) -> Self {
        Self {
            title,
            width,
            rank,
            side: Side::Left,
        }
    }

    /// A number, or another quantity.
    pub(crate) const fn number(title: &'static str, width: u16, rank: u8) -> Self {
        Self {
            title,
            width,
            rank,
            side: Side::Right,
        }
    }

    /// What takes at least so much, and what is left; of a table, one.
    pub(crate) const fn wide(title: &'static str, width: u16, rank: u8) -> Self {
        Self {
            title,
            width,
            rank,
            side: Side::Wide,
        }
    }
}

/// A duration as the text of a column; nothing where there is none.
pub(crate) fn duration(ns: Option<u64>) -> String {
    ns.map_or_else(String::new, |ns| display_duration(ns).to_string())
}

/// The positions of those that fit into this width together, in their order.
pub(super) fn fitting(columns: &[Column], width: u16) -> Vec<usize> {
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

/// The texts of the columns that were chosen, as a line of this width.
pub(super) fn aligned(
    columns: &[Column],
    chosen: &[usize],
    texts: &[String],
    width: u16,
) -> String {
    let used: u16 = chosen
        .iter()
        .map(|&position| columns[position].width + SPACING)
        .sum();
    let spare = width.saturating_sub(used.saturating_sub(SPACING));
    let cells = chosen.iter().map(|&position| {
        let (column, text) = (&columns[position], &texts[position]);
        let own = usize::from(column.width);
        match column.side {
            Side::Left => format!("{text:<own$.own$}"),
            Side::Right => format!("{text:>own$.own$}"),
            Side::Wide => format!("{text:<0$.0$}", own + usize::from(spare)),
        }
    });
    cells.collect::<Vec<_>>().join(&" ".repeat(SPACING.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 3] = [
        Column::text("method", 6, 2),
        Column::wide("flow", 8, 0),
        Column::number("rtt", 5, 1),
    ];

    #[test]
    fn a_narrow_terminal_shows_what_matters_most() {
        assert_eq!(fitting(&COLUMNS, 200), [0, 1, 2]);
        assert_eq!(fitting(&COLUMNS, 22), [1, 2]);
        assert_eq!(fitting(&COLUMNS, 8), [1]);
        assert_eq!(fitting(&COLUMNS, 3), [0; 0]);
    }

    #[test]
    fn texts_stand_below_each_other() {
        let texts = ["echo", "10.0.0.1 > 10.0.1.1", "20 ms"].map(str::to_owned);
        let line = |width| aligned(&COLUMNS, &fitting(&COLUMNS, width), &texts, width);
        assert_eq!(line(25), "echo    10.0.0.1 >  20 ms");
        assert_eq!(line(20), "10.0.0.1 > 10  20 ms");
    }
}
