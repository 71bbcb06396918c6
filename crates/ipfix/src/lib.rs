//! IPFIX (RFC 7011) for records that describe themselves: an exporter that makes its templates from
//! the [`Schema`](fathom_record::Schema) of records and sends them over UDP, TCP or TLS, and a
//! collector that reads what any exporter sends. Elements that IANA does not have go under an
//! enterprise number with their names and types (RFC 5610), so that collectors need no
//! configuration. There is no SCTP, and no DTLS. [`Export`] sends from a thread of its own, and
//! [`Listeners`] waits for what arrives. The rest does no I/O, and takes the time as an argument.
//!
//! What stays behind: fields that declare no element ([`fields_without_element`]), and the
//! difference between a field that is missing and one that is not in the template.
//!
//! ```
//! use fathom_ipfix::{Collector, Exporter, ExporterSettings, Limits, Outgoing, Session};
//! use fathom_record::{Nanoseconds, Time, record};
//!
//! record! {
//!     /// A round trip.
//!     #[record = "round_trip"]
//!     pub struct RoundTrip {
//!         /// When it ended.
//!         #[field(ipfix = 325)]
//!         pub time: Time,
//!         /// How long it took.
//!         #[field(own_ipfix = 1)]
//!         pub rtt_ns: Option<Nanoseconds>,
//!     }
//! }
//!
//! let now = Time(1_795_176_000_123_456_789);
//! let mut exporter = Exporter::new(&ExporterSettings::default());
//! exporter.record(&RoundTrip { time: now, rtt_ns: Some(Nanoseconds(20_113_000)) }, now);
//! exporter.flush();
//!
//! let session = Session { exporter: "192.0.2.1:4739".parse().unwrap(), connection: 0 };
//! let mut collector = Collector::new(Limits::default());
//! let mut names = Vec::new();
//! for Outgoing::Announcement(message) | Outgoing::Data(message) in exporter.outgoing() {
//!     let taken = collector.messages(session, &message.bytes, &mut |record| {
//!         if !record.is_options() {
//!             names.extend(record.fields().map(|field| field.name.into_owned()));
//!         }
//!     });
//!     taken.unwrap();
//! }
//! assert_eq!(names, ["observationTimeNanoseconds", "rtt_ns"]);
//! ```

mod collect;
mod connection;
mod destination;
mod element;
mod error;
mod export;
mod exporting;
mod iana;
mod incoming;
mod kind;
mod listen;
mod queue;
mod sender;
pub mod wire;

pub use collect::{
    Collected, CollectedField, Collector, CollectorCounts, Frames, Limits, Session, Table,
};
pub use destination::{Destination, Transport};
pub use element::{DataType, Element, Semantics, Units, iana_element};
pub use error::Error;
pub use export::{
    Exporter, ExporterCounts, ExporterSettings, Outgoing, TemplateSet, conflicting_elements,
    fields_without_element,
};
pub use exporting::Export;
pub use incoming::{TlsAcceptor, TlsStream, server_config};
pub use listen::{Hears, ListenAddress, Listeners, TlsFiles};
pub use queue::{Counters, OutgoingQueue, Refresh};
pub use sender::{Sender, SenderSettings};
