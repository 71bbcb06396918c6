//! What `fathom-server serve` shows of stores whose records are known, to programs and in a
//! browser.
#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

mod access;
mod answers;
mod described;
mod page;
mod server;
mod statements;
mod store;
