//! What loom-tests and shuttle-tests share: corewheel's own source files, and what those import from elsewhere.
//!
//! [`source`] is the crate itself, compiled with `cfg(loom)`: that leaves the files that are explored. They import `sync`
//! from the crate that compiles this module, and as little as they need of the crate's `clock`, `shard`, `stats` and
//! `system` from here. [`fixture`] is what models and scenarios are made of.

pub(crate) mod clock;
#[allow(unused_imports)]
pub(crate) mod fixture;
pub(crate) mod race_detector;
pub(crate) mod shard;
#[allow(missing_docs, unexpected_cfgs, unused_imports)]
#[path = "../../../src/lib.rs"]
pub(crate) mod source;
#[cfg(crossbeam_loom)]
pub(crate) mod stats;
pub(crate) mod system;

#[allow(unused_imports)]
pub(crate) use source::*;
