//! `Permits`: the permits under `max_pending`, shared by all shards of a service.
//!
//! `schedule` acquires a permit for each timer that is not a future's. The thread that ends the timer releases it: when
//! a one-shot starts, when a periodic timer ends, at a cancel, or when a shutdown takes the closure. Without
//! `max_pending` there is no `Permits`, and no cache line that threads share.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::shard::Shard;

/// A counter of pending timers with a maximum. The limit is exact.
pub(crate) struct Permits {
    max: usize,
    pending: AtomicUsize,
}

impl Permits {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, pending: AtomicUsize::new(0) }
    }

    /// Takes a permit. Returns false if none is left.
    pub(super) fn acquire(&self) -> bool {
        // Relaxed: the count guards no other memory.
        self.pending
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |pending| (pending < self.max).then_some(pending + 1))
            .is_ok()
    }
}

impl Shard {
    /// Releases the permit of a timer that has ended or was refused, if timers have permits.
    #[inline]
    pub(super) fn release_permit(&self) {
        if let Some(limit) = &self.limit {
            limit.pending.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
