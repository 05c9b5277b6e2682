//! Utilities of all benchmarks.

pub mod random;
pub mod threads;
