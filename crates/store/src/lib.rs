//! Keeps records in a directory of Parquet files, which any engine reads, also while they are
//! written.
//!
//! ```text
//! DIR/version                                   the layout, a number
//! DIR/lock                                      the process that writes
//! DIR/log/00000000000000000007.log              what no segment has yet
//! DIR/KIND/day=2026-11-24/1764000000-7-7.parquet  a segment: begin, first and last log
//! DIR/senders                                   what was taken of whom
//! DIR/aside/                                    what could not be read
//! ```
//!
//! A [`Writer`] takes batches of records. It appends them to the log, and what [`Writer::sync`]
//! returned from is there whatever ends the process. When a log is full or old enough, its records
//! become a segment of each kind and hour, sorted by time. Small segments merge, and rows of old
//! segments become rows of longer intervals.
//!
//! ```
//! use fathom_record::{Count, Time};
//! use fathom_store::{Batches, Settings, Snapshot, Writer};
//!
//! # let directory = tempfile::tempdir().unwrap();
//! # let directory = directory.path();
//! let mut batches = Batches::new("gateway");
//! batches.put(&Count::new(Time(1), "rtt", "samples", 7));
//! let (mut writer, _recovered) = Writer::open(directory, Settings::default()).unwrap();
//! for batch in batches.take() {
//!     writer.append(batch).unwrap();
//! }
//! writer.sync().unwrap();
//! assert_eq!(Snapshot::of(directory).unwrap().kind("count").unwrap().open[0].num_rows(), 1);
//! ```

mod batch;
mod columns;
mod concatenate;
mod error;
mod fold;
mod frame;
mod histograms;
mod layout;
mod log;
mod merge;
mod rollup;
mod rows;
mod schema;
mod segment;
mod senders;
mod sent;
mod snapshot;
mod source;
mod types;
mod writer;

pub use batch::{Batch, Batches};
pub use error::Error;
pub use histograms::{HistogramColumn, Histograms, histogram_type};
pub use schema::fitted;
pub use sent::{Number, Sent, Unreadable, Whole, encode, is_kind, received, whole};
pub use snapshot::{Kind, Snapshot};
pub use writer::{Full, Recovered, Settings, Status, Writer};
