//! loom models of corewheel's own source files.
//!
//! The models are tests. `cargo test -p loom-tests` explores them with at most two preemptions;
//! `LOOM_MAX_PREEMPTIONS=3` explores further. The models of `registry` need a crossbeam-epoch that uses loom, which a
//! flag of the whole build selects:
//! `RUSTFLAGS='--cfg crossbeam_loom' cargo test -p loom-tests --target-dir target/mutations`.
#![cfg_attr(not(test), allow(dead_code))]

extern crate alloc;

#[allow(dead_code)]
mod support;
mod sync;

use support::*;

#[cfg(test)]
mod models;
