//! Counts whose memory loom watches: it does not see a plain allocation that is read too late, but it sees that the drop of
//! what is in it is not ordered after the reading.

use std::ops::AddAssign;

use crate::sync::{AtomicU64, Ordering, UnsafeCell};

/// Touched by all who read what it is a part of, and changed by who makes it and who frees it.
struct Watched(UnsafeCell<()>);

impl Watched {
    fn look(&self) {
        self.0.with(|_| ());
    }

    fn change(&self) {
        self.0.with_mut(|_| ());
    }
}

// SAFETY: that is what loom watches.
unsafe impl Send for Watched {}
// SAFETY: as above.
unsafe impl Sync for Watched {}

impl Default for Watched {
    fn default() -> Self {
        let watched = Self(UnsafeCell::new(()));
        watched.change();
        watched
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.change();
    }
}

#[derive(Default)]
pub(crate) struct Record {
    scheduled: AtomicU64,
    watched: Watched,
}

impl Record {
    pub(crate) fn count(&self) {
        // Only its own thread counts on it.
        self.scheduled.store(self.scheduled.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> ShardStats {
        self.watched.look();
        ShardStats { scheduled: self.scheduled.load(Ordering::Relaxed), ..ShardStats::default() }
    }
}

#[derive(Default)]
pub(crate) struct ShardStats {
    pub(crate) scheduled: u64,
    watched: Watched,
}

impl Clone for ShardStats {
    fn clone(&self) -> Self {
        self.watched.look();
        Self { scheduled: self.scheduled, ..Self::default() }
    }
}

impl AddAssign<&ShardStats> for ShardStats {
    fn add_assign(&mut self, other: &ShardStats) {
        other.watched.look();
        self.scheduled += other.scheduled;
    }
}
