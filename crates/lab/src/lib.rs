//! The test bench of fathom: networks on this machine whose latency is known.
//!
//! [`Namespace`]s hold the hosts, [`Link`]s join them and delay, lose, reorder, duplicate, damage
//! or queue packets as told, each with a record of what it did to which packet and when: the truth
//! that a measurement is compared with. [`Topology`] is the usual arrangement of both, [`Chain`]
//! one with more routers and ways, [`traffic`] makes packets to measure. Everything is held by this
//! process and by nothing else, so that it is gone when the process is, even killed. It needs root
//! (`CAP_SYS_ADMIN`, `CAP_NET_ADMIN`), `/dev/net/tun` and the `ip` command; [`obstacle`] says what
//! is missing. It is not a simulator: real kernels exchange real packets in real time.
//!
//! # Examples
//! ```no_run
//! use std::time::Duration;
//! use fathom_lab::{Direction, LinkConfig, Topology, Way, traffic::tools};
//!
//! let slow = LinkConfig {
//!     forward: Direction::delayed(Duration::from_millis(20)).loss(0.01),
//!     backward: Direction::delayed(Duration::from_millis(20)),
//!     seed: 1,
//! };
//! let lab = Topology::builder().wan(slow).build()?;
//! let times = tools::ping(&lab.client, Topology::SERVER_V4, 100, Duration::from_millis(10))?;
//! assert_eq!(times.len() as u64, 100 - lab.wan.totals(Way::Forward).lost);
//! # Ok::<(), fathom_lab::Error>(())
//! ```

mod chain;
mod error;
mod icmp_limits;
mod link;
mod namespace;
mod peer;
mod process;
mod random;
mod router;
mod stolen;
pub mod summary;
mod switch;
mod tap;
mod topology;
pub mod traffic;
mod worker;

pub use chain::{Branch, Chain, ChainBuilder, Family};
pub use error::{Error, Result};
pub use fathom_real_time::test;
pub use link::{
    Action, Device, Direction, Fate, Layer, Link, LinkBuilder, LinkConfig, LinkEnd, PacketFate,
    PacketHeader, PacketKind, Quote, Rule, Schedule, TcpFlags, Totals, Transport, Way,
};
pub use namespace::{Namespace, is_skipped, obstacle};
pub use peer::{Connection, Opening, ScriptedPeer, Segment, TcpOptions, Timestamps};
pub use process::{Process, wait_until};
pub use random::Sequence;
pub use router::{Answers, InterfaceInformation, MplsLabel, ScriptedRouter, Translation};
pub use stolen::{Shared, in_lab, in_real_time, stolen_time};
pub use switch::Switch;
pub use tap::{Passed, Tap};
pub use topology::{Topology, TopologyBuilder};
pub use worker::{Stop, Worker, stay_on};
