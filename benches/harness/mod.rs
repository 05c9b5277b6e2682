//! Utilities of all benchmarks.

pub mod laps;
pub mod random;
