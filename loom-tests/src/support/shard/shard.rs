//! `Shard`: one engine, without what loom does not support.

// Of `std`, not of loom: it orders nothing, and is no step of a thread.
use std::sync::atomic::{AtomicBool, Ordering};

use crate::clock::Ticks;
use crate::engine::core::Core;
use crate::fixture::Counts;

pub(crate) struct Shard {
    pub(crate) core: Core,
    pub(crate) ticks: Ticks,
    pub(crate) counts: Counts,
    /// No handle is left. The crate frees the shard at this point.
    freed: AtomicBool,
}

impl Shard {
    pub(crate) fn new(core: Core) -> Self {
        Self { core, ticks: Ticks, counts: Counts::new(), freed: AtomicBool::new(false) }
    }

    /// Records that no handle is left.
    pub(crate) fn set_freed(&self) {
        self.freed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_freed(&self) -> bool {
        self.freed.load(Ordering::Relaxed)
    }

    pub(crate) fn is_inherited(&self) -> bool {
        false
    }

    pub(crate) fn release_permit(&self) {}
}
