//! The one place where the standard library and loom are swapped.
//!
//! Every file that takes part in a protocol between threads imports its primitives from `crate::sync`, and nothing
//! else. Here they are the standard library's. The crates `loom-tests` and `shuttle-tests` compile the same files against
//! a `sync` of their own with the same names.

pub(crate) mod cell;
#[cfg(not(loom))]
mod native;
#[cfg(any(not(loom), shuttle))]
pub(crate) mod parker;

#[cfg(not(loom))]
pub(crate) use native::*;
