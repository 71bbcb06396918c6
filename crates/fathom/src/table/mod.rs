//! The table that a live measurement shows on a terminal.

mod ranked;
mod recent;
mod screen;

pub(crate) use ranked::Ranked;
#[cfg(test)]
pub(crate) use ranked::tests::{drawn, press};
pub(crate) use ranked::{Rows, SortKey};
pub(crate) use recent::Recent;
pub(crate) use screen::{Screen, TableView};
