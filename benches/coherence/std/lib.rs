//! A stand-in for the standard library that counts cache-line transfers.
//!
//! The binary of this package names this crate `std` and compiles corewheel's own source files, so all their atomics,
//! locks, reference counts, threads and clocks are the ones here. Each has the size and the alignment of the one that it
//! stands for, so every value lies on the cache line where it lies in the real build. Each access tells [`count`] its
//! address, its thread and whether it writes; a [MESI](mesi) state for each line decides whether the line is transferred.
//!
//! | module     | concern                                                                   |
//! |------------|---------------------------------------------------------------------------|
//! | `mesi`     | cache lines, and which threads hold them                                  |
//! | `schedule` | logical threads: one runs at a time, a seed decides which, time is virtual |
//! | `count`    | the accesses that are counted, and where transfers come from              |
//! | `sync`, `thread`, `time` | stand for the modules of the standard library               |
//!
//! What is not here is the standard library's own.

// What stands for an item of the standard library is documented there.
#![allow(missing_docs, reason = "as above")]

pub mod count;
pub mod mesi;
pub mod schedule;
pub mod sync;
pub mod thread;
pub mod time;

pub use std::*;

#[cfg(test)]
mod tests;
