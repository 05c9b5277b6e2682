//! loom models over corewheel's own source files.
//!
//! The models are tests, so `cargo test -p loom-tests` explores them, with two preemptions at most;
//! `LOOM_MAX_PREEMPTIONS=3` explores further. The models of `registry` need an epoch that loom knows, which is a matter of
//! the whole build: `RUSTFLAGS='--cfg crossbeam_loom' cargo test -p loom-tests --target-dir target/mutations`.
#![cfg_attr(not(test), allow(dead_code))]

#[allow(dead_code)]
mod support;
mod sync;

use support::*;

#[cfg(test)]
mod models;
