//! The shards that keep the timers of a queue's values.
//!
//! A queue has the shards of its service, not the service: the shards' memory stays, but their threads end with the last
//! clone of the `Timer`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::clock::{Deadline, Ticks};
use crate::engine::entry::{Callback, Role};
use crate::error::Rejection;
use crate::handle::TimerHandle;
use crate::shard::Shard;

/// What a queue has of a service.
pub(crate) struct Home {
    service: u64,
    shards: Box<[Arc<Shard>]>,
    next_turn: AtomicUsize,
}

impl Home {
    /// `shards` must not be empty.
    pub(crate) fn new(service: u64, shards: &[Arc<Shard>]) -> Self {
        Self { service, shards: shards.into(), next_turn: AtomicUsize::new(0) }
    }

    /// Returns a shard of the service.
    pub(super) fn any_shard(&self) -> &Arc<Shard> {
        &self.shards[0]
    }

    pub(super) fn ticks(&self) -> &Ticks {
        &self.any_shard().ticks
    }

    /// Returns whether the calling thread is in the child of a fork, which must leave the parent's values alone.
    pub(super) fn is_inherited(&self) -> bool {
        self.any_shard().is_inherited()
    }

    /// Schedules a timer whose callback the driver runs. `write` writes the callback into its entry. If the timer is
    /// refused, what may have been written must be treated as uninitialised.
    pub(super) fn schedule(
        &self,
        deadline: Deadline,
        write: impl FnOnce(*mut Callback),
    ) -> Result<TimerHandle, Rejection> {
        let (raw, deadline) = Shard::schedule(self.service, || self.choose(), |_| deadline, Role::Once, write)?;
        // SAFETY: `Shard::schedule` returned it just now, and only this handle receives it.
        Ok(unsafe { TimerHandle::new(raw, deadline) })
    }

    /// Counts a value that was refused before it came to any shard.
    #[cold]
    pub(super) fn reject(&self) {
        Shard::reject(self.service, || self.choose());
    }

    fn choose(&self) -> &Arc<Shard> {
        // Relaxed: only spreads the threads, and guards nothing.
        Shard::choose_home(&self.shards, self.next_turn.fetch_add(1, Ordering::Relaxed))
    }
}
