//! How many timers may be pending.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::binding::Shard;

/// The most timers that may be pending in all shards of a service together.
pub(crate) struct Limit {
    max: usize,
    pending: AtomicUsize,
}

impl Limit {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, pending: AtomicUsize::new(0) }
    }

    pub(super) fn acquire(&self) -> bool {
        // Relaxed: the count guards nothing but itself.
        self.pending
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |pending| (pending < self.max).then_some(pending + 1))
            .is_ok()
    }

    pub(super) fn release(&self) {
        self.pending.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Shard {
    /// Whether a timer that ends has a permit to give back.
    #[inline]
    pub(super) fn is_limited(&self) -> bool {
        self.limit.is_some()
    }

    #[inline]
    pub(super) fn release_permit(&self) {
        if let Some(limit) = &self.limit {
            limit.release();
        }
    }
}
