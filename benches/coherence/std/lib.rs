//! A stand-in for the standard library that counts cache-line transfers.
//!
//! The binary of this package imports this crate as `std` and compiles corewheel's own source files. So all their
//! atomics, locks, reference counts, threads and clocks are those of this crate. Each type has the size and the
//! alignment of the type that it replaces, so every value has the same offset in its cache line as in the real build.
//! Each access passes its address, its thread and its kind to [`count`]. The [MESI](mesi) state of each line decides
//! whether the access transfers the line.
//!
//! | module     | contents                                                                  |
//! |------------|---------------------------------------------------------------------------|
//! | `mesi`     | the states of cache lines                                                 |
//! | `schedule` | logical threads: one runs at a time, a seed selects it, time is virtual   |
//! | `count`    | counts of accesses and transfers, with the source lines that cause them   |
//! | `simulation` | a run of logical threads, from empty caches                             |
//! | `sync`, `thread`, `time` | replacements for the modules of the standard library        |
//!
//! All other items are those of the standard library.

// The standard library documents the items that are replaced here.
#![allow(missing_docs, reason = "as above")]

pub mod count;
pub mod mesi;
pub mod schedule;
mod simulation;
pub mod sync;
pub mod thread;
pub mod time;

pub use simulation::simulate;
pub use std::*;

#[cfg(test)]
mod tests;
