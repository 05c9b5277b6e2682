//! What loom-tests and shuttle-tests share: corewheel's own source files, and replacements for what these import.
//!
//! [`source`] is the crate itself, compiled with `cfg(loom)`, which leaves only the explored files. These files import
//! `sync` from the crate that compiles this module, and as little as possible of `clock`, `shard`, `stats` and `system`
//! from here. [`fixture`] contains the building blocks of models and scenarios.

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
