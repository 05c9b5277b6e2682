//! The crate's `sync`, with a cell whose accesses are recorded.

#[path = "../../../src/sync/native.rs"]
mod native;
#[path = "../../../src/sync/portable.rs"]
mod portable;

pub(crate) use std::sync::RecordedCell as UnsafeCell;
pub(crate) use {native::*, portable::*};
