//! The table that a live measurement shows on a terminal.

mod columns;
mod histogram;
mod ranked;
mod recent;
mod screen;

pub(crate) use columns::{Column, duration};
pub(crate) use histogram::{AXIS, COLUMNS, bars, bars_of};
#[cfg(test)]
pub(crate) use ranked::tests::drawn;
pub(crate) use ranked::{Ranked, Rows, SortKey};
pub(crate) use recent::Recent;
pub(crate) use screen::{Screen, TableView, is_looked_at};
