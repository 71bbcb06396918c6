//! What the benchmarks share: packets, programs in the kernel, live traffic, records, and
//! statistics.

#![allow(
    clippy::missing_errors_doc,
    reason = "who calls is a test or a benchmark, which fails"
)]

pub mod lines;
pub mod live;
pub mod native;
pub mod programs;
pub mod records;
pub mod statistics;
pub mod wire;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};

/// What has been taken of processors, in seconds.
pub fn processor_s(who: UsageWho) -> anyhow::Result<f64> {
    let usage = getrusage(who)?;
    let seconds = |time: TimeVal| time.num_microseconds() as f64 / 1e6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}

/// Makes a directory anew; returns its whole path.
pub fn made_anew(directory: &Path) -> anyhow::Result<PathBuf> {
    if directory.exists() {
        fs::remove_dir_all(directory).context("cannot remove what was there")?;
    }
    fs::create_dir_all(directory)?;
    Ok(fs::canonicalize(directory)?)
}
