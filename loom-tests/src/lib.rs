//! loom models of corewheel's own source files.
//!
//! The models are tests. `cargo test -p loom-tests` explores them with at most two preemptions;
//! `LOOM_MAX_PREEMPTIONS=3` explores further.
#![cfg_attr(not(test), allow(dead_code))]

extern crate alloc;

#[allow(dead_code)]
mod support;
mod sync;

use support::*;

#[cfg(test)]
mod models;
