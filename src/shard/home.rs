//! Spreads threads over the shards of a service: each thread schedules in one shard, its home.
//!
//! A thread chooses its home when it first uses a service, before its first timer there. It keeps the home until it
//! ends, so its cache and its counters stay with one shard. Handles and futures use the shard of their own timer, on
//! any thread.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::shard::Shard;

impl Shard {
    /// Chooses the shard that is home to the fewest live threads, and counts the calling thread there. Of equal shards
    /// it chooses the first from index `turn` on. See `thread_state::with_home`. Lock-free.
    pub(crate) fn choose_home(shards: &[Arc<Shard>], turn: usize) -> &Arc<Shard> {
        loop {
            let (before, from) = shards.split_at(turn % shards.len());
            // Relaxed, here and below: the number orders no other memory.
            let homes = from.iter().chain(before).map(|shard| (shard.homes.load(Ordering::Relaxed), shard));
            let (homes, shard) = fewest(homes).expect("a service has shards");
            // If several threads choose at the same time, one succeeds. The others compare again.
            if shard.homes.compare_exchange(homes, homes + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                return shard;
            }
        }
    }

    /// Removes a thread that had chosen this shard from its count.
    pub(super) fn leave_home(&self) {
        self.homes.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns the first pair with the smallest number. Stops at the first zero.
fn fewest<T>(numbered: impl Iterator<Item = (usize, T)>) -> Option<(usize, T)> {
    let mut fewest = None;
    for (number, item) in numbered {
        if fewest.as_ref().is_none_or(|&(least, _)| number < least) {
            fewest = Some((number, item));
        }
        if number == 0 {
            break;
        }
    }
    fewest
}
