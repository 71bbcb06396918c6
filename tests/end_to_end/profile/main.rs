//! `fathom profile` against connections whose profiles are derived beforehand, both ends, IPv4 and
//! IPv6.
//!
//! Every case says what happens to which packet and when, what the stack makes of that by its own
//! rules (RFC 9293, 6298, 8985, 2883), and so what each profile must say: exactly, and spans of
//! time within a bound. What a prediction does not name must not have happened. Cases have ports of
//! their own and share labs, so that their timers run at the same time.
#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

mod agreement;
mod arrivals;
mod attempts;
mod cases;
mod circumstances;
mod command_line;
mod departures;
mod endings;
mod multipath;
mod paths;
mod recovery;
mod script;
mod short;
mod stage;
mod volumes;
