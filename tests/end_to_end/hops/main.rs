//! `fathom hops` against chains of routers whose record says what was sent, who answered and when.
#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

mod accuracy;
mod analysis;
mod beside;
mod harm;
mod join;
mod lifecycle;
mod matching;
mod names;
mod own;
mod programs;
mod queues;
mod selection;
mod short;
mod stage;
mod together;
mod vanishing;
