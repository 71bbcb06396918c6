//! The binary as users and scripts meet it: what it prints where, and the status that it ends with.

#![expect(
    clippy::unwrap_used,
    reason = "what a test sets up either works or ends the test"
)]

mod capture;
mod configuration;
#[cfg(feature = "live")]
mod doctor;
mod export;
mod files;
#[cfg(feature = "live")]
mod live;
mod ppviz;
mod run;
mod usage;
