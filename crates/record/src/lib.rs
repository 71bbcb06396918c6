//! What every part of fathom says about traffic: whose packets they are ([`FlowKey`]), what was
//! measured ([`Record`], described once by its [`Schema`]), how durations are distributed
//! ([`Histogram`]), and how all of it reads as text, JSON or CSV ([`format`](mod@format)). It
//! measures nothing itself, reads no clock and opens no file: times are arguments and output goes
//! into the caller's buffer.
//!
//! ```
//! use fathom_record::format::Format;
//! use fathom_record::{FlowKey, Nanoseconds, Protocol, Time, record};
//!
//! record! {
//!     /// One answered probe.
//!     #[record = "answer"]
//!     pub struct Answer {
//!         /// When the answer passed the capture point.
//!         #[field(ipfix = 325)]
//!         pub time: Time,
//!         /// The flow of the packet that was answered.
//!         pub flow: FlowKey,
//!         /// From the packet to its answer.
//!         pub rtt_ns: Nanoseconds,
//!         /// The interface it was seen on, when there is one.
//!         #[field(bare)]
//!         pub interface: Option<&'static str>,
//!     }
//! }
//!
//! let answer = Answer {
//!     time: Time(1_795_176_000_123_456_789),
//!     flow: FlowKey {
//!         protocol: Protocol::TCP,
//!         source: "10.0.0.1".parse().unwrap(),
//!         source_port: 5000,
//!         destination: "10.0.1.1".parse().unwrap(),
//!         destination_port: 443,
//!     },
//!     rtt_ns: Nanoseconds(20_113_000),
//!     interface: None,
//! };
//! let mut line = Vec::new();
//! Format::Text.sink().write(&answer, &mut line);
//! assert_eq!(line, b"12:00:00.123456+00:00 answer  tcp 10.0.0.1:5000 > 10.0.1.1:443  rtt 20.11 ms\n");
//! ```

mod community;
mod count;
mod error;
mod field;
mod flow;
mod fold;
pub mod format;
mod histogram;
mod network;
mod network_names;
#[doc(hidden)]
pub mod parts;
mod squares;
mod value;

pub use community::CommunityId;
pub use count::Count;
pub use error::Error;
pub use field::{Field, Ipfix, Metric, Record, Registry, Schema, TextForm, Type, Unit, Visitor};
pub use flow::{FlowKey, Protocol};
pub use fold::Fold;
pub use histogram::Histogram;
pub use network::Network;
pub use network_names::NetworkNames;
pub use squares::Squares;
pub use value::{AsValue, Nanoseconds, Port, Time, Value};
