//! What we export, taken by collectors that others wrote, and by our own: invented records with
//! fields of every type, and the profiles of real traffic.
#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

mod by_fathom;
mod by_others;
mod collectors;
mod flowcorder;
mod invented;
mod profiles;
mod traffic;
