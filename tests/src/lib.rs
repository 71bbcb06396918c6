//! The `fathom` binary against the truth of the lab: what the end-to-end tests and the
//! demonstration share.
//!
//! It runs the binary as a user would, reads its JSON by the documented names, and finds in the
//! lab's record, with code of its own, which packet was answered by which and how long that took
//! ([`pairs`]), to compare each printed sample with its own two packets ([`Comparison`]). It links
//! nothing of the measurement.
//!
//! # Examples
//! ```no_run
//! use std::time::Duration;
//! use fathom_lab::{LinkConfig, Tap, Topology, traffic::tools};
//! use fathom_tests::{Comparison, EVERY_PACKET, Fathom, Method, pairs, passed_by_tap};
//!
//! let lab = Topology::builder().wan(LinkConfig::symmetric(Duration::from_millis(20))).build()?;
//! let tap = Tap::start(&lab.router, "wan0")?;
//! let fathom = Fathom::start(&lab.router, &["wan0"], &EVERY_PACKET)?;
//! tools::ping(&lab.client, Topology::SERVER_V4, 10, Duration::from_millis(20))?;
//! let samples = fathom.finish()?.samples();
//! let truth = pairs::echo(&passed_by_tap(tap)?);
//! println!("{}", Comparison::new(&samples, &truth).figures(Method::Echo));
//! # Ok::<(), anyhow::Error>(())
//! ```

#![allow(
    clippy::missing_errors_doc,
    reason = "who calls is a test or a benchmark, which fails"
)]

mod agreement;
mod attached;
mod balancer;
mod certificates;
mod clickhouse;
mod comparison;
pub mod explained;
mod fathom;
mod group;
mod hops;
pub mod pairs;
mod passing;
mod profile;
pub mod quic;
mod record;
pub mod recording;
mod requests;
pub mod responses;
mod settle;
mod setup;
mod stolen;
mod terminal;

pub use agreement::Agreement;
pub use attached::{attached_programs, has_tcx, programs_of};
pub use balancer::Balancer;
pub use certificates::certificates;
pub use clickhouse::clickhouse;
pub use comparison::{Comparison, Figures, Match};
pub use fathom::{EVERY_PACKET, Fathom, Finished, binary};
pub use group::Group;
pub use hops::{Congestion, Hop, Probe, ProbeOutcome, RouteChange, Way};
pub use pairs::Pair;
pub use passing::{Passing, passed_by_link, passed_by_tap};
pub use profile::{Prediction, Profile, check};
pub use record::{Count, Flow, FlowEvent, Method, Record, Sample};
pub use requests::capture_of_requests;
pub use settle::settle;
pub use setup::{cache, repository};
pub use stolen::{check_close, was_away};
pub use terminal::Terminal;
