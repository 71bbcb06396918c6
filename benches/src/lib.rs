//! What the benchmarks share: packets, programs in the kernel, live traffic, and statistics.

pub mod live;
pub mod native;
pub mod programs;
pub mod statistics;
pub mod wire;
