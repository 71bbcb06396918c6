//! What the tables share that live measurements show on a terminal.

mod fitting;
mod histogram;
mod screen;

pub(crate) use fitting::{SPACING, fitting_of};
pub(crate) use histogram::{AXIS, COLUMNS, bars, bars_of};
pub(crate) use screen::{Rate, Screen, Shown, Wish, is_looked_at};
