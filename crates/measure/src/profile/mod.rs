//! Transport profiles: what the TCP and MPTCP connections of this host went through, from the
//! protocol stack itself, at the moments that matter.
//!
//! Probes in the stack tell of those moments (`profile.bpf.c`), with the counters of the connection
//! as they stand; what a connection did from one to the next is a profile. The README beside this
//! file says what each number means and what cannot be seen.

mod carried;
mod connection;
mod connection_table;
mod connections;
mod container;
mod dns;
mod ending;
mod group;
mod increase;
mod indicator;
mod live;
mod load;
mod meta;
mod metas;
mod moment;
mod names;
mod namespaces;
mod native;
mod options;
mod probes;
mod record;
mod reorder;
mod scans;
mod slots;
mod snapshot;
mod statistics;
mod totals;

pub use dns::{DnsProfile, LookupProfile};
pub use group::{ControlGroup, InGroup};
pub use indicator::Indicator;
pub use live::Profiler;
pub use load::available;
pub use options::Options;
pub use probes::{ProbeSet, Probes};
pub use record::{MptcpProfile, State, TcpProfile};
pub use totals::{AtEnd, TcpTotals};
