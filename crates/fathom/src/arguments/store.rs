//! Options of those who keep records in a store.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use fathom_store::{Full, Settings};

use super::{Choice, one_of, positive_duration};

/// Where records are kept, and for how long.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(next_help_heading = "Store")]
pub(crate) struct StoreArguments {
    /// Keep records in this directory, as Parquet files that `fathom query` and any other engine
    /// reads.
    #[arg(long, value_name = "DIR")]
    pub(crate) store: Option<PathBuf>,
    /// Remove what is older; `fathom agent` by default what is older than 30 days.
    #[arg(long, value_name = "TIME", value_parser = positive_duration)]
    pub(crate) store_age: Option<Duration>,
    /// Put records of flows and intervals together, one a minute, when they are older; `fathom
    /// agent` by default after 2 days. Others stay as they are.
    #[arg(long, value_name = "TIME", value_parser = positive_duration)]
    pub(crate) store_minutes: Option<Duration>,
    /// The same, one an hour; `fathom agent` by default after 14 days.
    #[arg(long, value_name = "TIME", value_parser = positive_duration)]
    pub(crate) store_hours: Option<Duration>,
    /// Remove the oldest when all takes more MiB, first of what was not put together; `fathom
    /// agent` by default at 10240.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) store_size: Option<u64>,
    /// What is done when the disk is full; measuring goes on.
    #[arg(long, value_name = "WHAT", default_value = "remove-oldest", value_parser = one_of(&FULL))]
    pub(crate) store_full: Full,
}

const FULL: [Choice<Full>; 2] = [
    (
        Full::RemoveOldest,
        "remove-oldest",
        "The oldest records make room",
    ),
    (
        Full::Stop,
        "stop",
        "No records are kept until there is room",
    ),
];

impl StoreArguments {
    /// How it is kept.
    pub(crate) fn settings(&self) -> Settings {
        Settings {
            max_age: self.store_age,
            minutes_after: self.store_minutes,
            hours_after: self.store_hours,
            max_bytes: self.store_size.map(|mib| mib << 20),
            full: self.store_full,
            ..Settings::default()
        }
    }
}
