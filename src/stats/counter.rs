//! `Counter`: a number that one thread increments.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that one thread increments, and any thread may read.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds `more`.
    #[inline]
    pub(crate) fn add(&self, more: u64) {
        // Relaxed: no other thread writes it. Release: publishes the earlier counts of this thread to readers; pairs with
        // the Acquire in `get`.
        self.0.store(self.0.load(Ordering::Relaxed) + more, Ordering::Release);
    }

    /// Sets the number to the maximum of itself and `to`.
    #[inline]
    pub(super) fn raise(&self, to: u64) {
        // Relaxed: published by the Release with which the run is counted afterwards.
        if self.0.load(Ordering::Relaxed) < to {
            self.0.store(to, Ordering::Relaxed);
        }
    }

    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}
