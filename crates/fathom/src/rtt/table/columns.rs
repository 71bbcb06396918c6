//! The columns of the table, and which of them a terminal has room for.

use std::fmt::Write as _;

use fathom_record::format::display_duration;

use super::Row;
use super::histogram::{AXIS, COLUMNS, bars};

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Column {
    Flow,
    Method,
    Last,
    Min,
    Median,
    P99,
    Distribution,
    Samples,
    Interface,
}

/// Space between columns.
pub(super) const SPACING: u16 = 2;
/// The narrowest that a flow is shown.
const FLOW_WIDTH_MIN: u16 = 34;

use Column::{Distribution, Flow, Interface, Last, Median, Method, Min, P99, Samples};

const ALL: [Column; 9] = [
    Flow,
    Method,
    Last,
    Min,
    Median,
    P99,
    Distribution,
    Samples,
    Interface,
];
/// The first of these are left out last.
const BY_IMPORTANCE: [Column; 9] = [
    Flow,
    Last,
    Median,
    P99,
    Samples,
    Min,
    Method,
    Distribution,
    Interface,
];

/// Those that fit into this width, from left to right.
pub(super) fn fitting(width: u16) -> Vec<Column> {
    fitting_of(&ALL, &BY_IMPORTANCE, Column::width, width)
}

/// Columns of `all` that fit into this width together, in their order there; the first `by_importance` are left out last.
pub(crate) fn fitting_of<C: Copy + PartialEq>(
    all: &[C],
    by_importance: &[C],
    width_of: impl Fn(C) -> u16,
    width: u16,
) -> Vec<C> {
    let mut used = 0;
    let chosen: Vec<_> = by_importance
        .iter()
        .take_while(|column| {
            used += width_of(**column) + SPACING;
            used <= width + SPACING
        })
        .collect();
    let is_chosen = |column: &C| chosen.contains(&column);
    all.iter().copied().filter(is_chosen).collect()
}

impl Column {
    /// The least that it takes; a flow takes what is left.
    pub(super) fn width(self) -> u16 {
        match self {
            Flow => FLOW_WIDTH_MIN,
            Last | Min | Median | P99 | Samples | Method => 9,
            Distribution => COLUMNS as u16,
            Interface => 10,
        }
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Flow => "flow",
            Method => "method",
            Last => "last",
            Min => "min",
            Median => "p50",
            P99 => "p99",
            Distribution => AXIS,
            Samples => "samples",
            Interface => "interface",
        }
    }

    /// Numbers stand at the right, so that they can be compared.
    pub(super) fn is_number(self) -> bool {
        matches!(self, Last | Min | Median | P99 | Samples)
    }

    pub(super) fn text(self, row: &Row) -> String {
        let duration = |ns| display_duration(ns).to_string();
        match self {
            Flow => flow_text(row),
            Method => row.key.method.name().to_owned(),
            Last => duration(row.last_ns),
            Min => duration(row.min_ns),
            Median => duration(row.quantile(0.5)),
            P99 => duration(row.quantile(0.99)),
            Distribution => bars(&row.distribution),
            Samples => row.samples().to_string(),
            Interface => row.key.interface.to_owned(),
        }
    }
}

fn flow_text(row: &Row) -> String {
    let mut text = row.key.flow.to_string();
    let (vlan, inner_vlan) = row.key.vlan;
    for (name, number) in [
        ("vlan", vlan.map(u32::from)),
        ("vlan", inner_vlan.map(u32::from)),
        ("tunnel", row.key.tunnel),
    ] {
        if let Some(number) = number {
            // Writing to memory does not fail.
            let _ = write!(text, " {name} {number}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_terminal_shows_what_matters_most() {
        assert_eq!(fitting(200), ALL);
        assert_eq!(fitting(80), [Flow, Last, Median, P99, Samples]);
        assert_eq!(fitting(34), [Flow]);
        assert_eq!(fitting(3), []);
    }
}
