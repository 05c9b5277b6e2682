//! loom models over corewheel's own source files.
//!
//! The modules below are the files of the crate itself, compiled against loom: `sync` here has the names of the crate's
//! own `sync`. The models are tests, so `cargo test -p loom-tests` explores them, with two preemptions at the most;
//! `LOOM_MAX_PREEMPTIONS=3` explores further. The models of `registry` need an epoch that loom knows, which is a matter of
//! the whole build: `RUSTFLAGS='--cfg crossbeam_loom' cargo test -p loom-tests --target-dir target/mutations`.
#![cfg_attr(not(test), allow(dead_code))]

#[allow(dead_code)]
mod clock;
#[allow(dead_code)]
#[path = "../../src/error.rs"]
mod error;
#[allow(dead_code)]
#[path = "../../src/clock/quiescence.rs"]
mod quiescence;
#[cfg(crossbeam_loom)]
#[path = "../../src/shard/registry.rs"]
mod registry;
#[allow(dead_code, unused_imports)]
mod scene;
#[allow(dead_code)]
mod shard;
#[cfg(crossbeam_loom)]
mod stats;
mod sync;
#[allow(dead_code)]
mod system;
#[allow(dead_code)]
mod watched;
#[allow(dead_code, unused_imports)]
#[path = "../../src/wheel/mod.rs"]
mod wheel;

pub use error::BuildError;

#[cfg(test)]
mod models;
