//! `Counter`: a number that one thread increments.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that one thread increments, and any thread may read.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds `more`. `shared`: other threads may add at the same time.
    #[inline]
    pub(crate) fn add(&self, more: u64, shared: bool) {
        // Release: publishes the earlier counts of this thread to readers; pairs with the Acquire in `get`.
        if shared {
            self.0.fetch_add(more, Ordering::Release);
        } else {
            // Relaxed: no other thread writes it.
            self.0.store(self.0.load(Ordering::Relaxed) + more, Ordering::Release);
        }
    }

    /// Sets the number to the maximum of itself and `to`. `shared`: other threads may do so at the same time.
    #[inline]
    pub(super) fn raise(&self, to: u64, shared: bool) {
        // Relaxed: published by the Release with which the run is counted afterwards.
        if self.0.load(Ordering::Relaxed) >= to {
        } else if shared {
            self.0.fetch_max(to, Ordering::Relaxed);
        } else {
            self.0.store(to, Ordering::Relaxed);
        }
    }

    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}
