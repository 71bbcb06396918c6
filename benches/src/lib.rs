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
pub mod statistics;
pub mod wire;
