//! Records on their way from agents and exporters to a collector, its store, and the answers of
//! `fathom query`: each once, whoever ends in between.
#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

mod agents;
mod capture;
mod collector;
mod exporters;
mod refused;
