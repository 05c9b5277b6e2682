//! The crate's `drive`, without the program's own loop: its waker implements `Wake`, which asks for the `Arc` of the real
//! standard library.

#[path = "../../../src/drive/batch.rs"]
mod batch;
#[path = "../../../src/drive/busyness.rs"]
mod busyness;
#[path = "../../../src/drive/hand_out.rs"]
mod hand_out;
#[path = "../../../src/drive/own_thread.rs"]
mod own_thread;
#[path = "../../../src/drive/shard_set.rs"]
mod shard_set;

use std::sync::Arc;

pub(crate) use own_thread::{OwnThreadHandle, drive};
pub(crate) use shard_set::ShardSet;

/// An empty type: no loop drives.
pub enum Driver {}

impl Driver {
    pub(crate) fn take(_shard_set: &Arc<ShardSet>, _service: u64, _index: usize) -> Option<Self> {
        None
    }
}
