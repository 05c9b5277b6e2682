//! The crate's `drive`, without the program's own loop: its waker implements `Wake`, which asks for the `Arc` of the real
//! standard library.

#[path = "../../../src/drive/batch.rs"]
mod batch;
#[path = "../../../src/drive/expired.rs"]
mod expired;
#[path = "../../../src/drive/load.rs"]
mod load;
#[path = "../../../src/drive/own_thread.rs"]
mod own_thread;
#[path = "../../../src/drive/own_thread_handle.rs"]
mod own_thread_handle;
#[path = "../../../src/drive/shard_set.rs"]
mod shard_set;

use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

pub(crate) use own_thread::drive;
pub(crate) use own_thread_handle::OwnThreadHandle;
pub(crate) use shard_set::ShardSet;

/// An empty type: no loop drives.
pub(crate) enum ProgramLoop {}

impl ProgramLoop {
    pub(crate) fn take(_shard_set: &Arc<ShardSet>, _service: u64, _index: usize) -> Option<Self> {
        None
    }

    pub(crate) fn attach(&self) {
        match *self {}
    }

    pub(crate) fn is_closed(&self) -> bool {
        match *self {}
    }

    pub(crate) fn set_waker(&self, _waker: &Waker) {
        match *self {}
    }

    pub(crate) fn drive(&mut self) -> usize {
        match *self {}
    }

    pub(crate) fn next_wakeup(&mut self) -> Option<Instant> {
        match *self {}
    }
}
