//! Spreads threads over the shards of a service: each thread schedules in one shard, its home.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::binding::Shard;

impl Shard {
    /// Returns the shard with the fewest living threads at home, one of which the calling thread is from now on; of
    /// several, the first from `turn` on. See [`thread_state::with_home`]. Lock-free.
    pub(crate) fn choose_home(shards: &[Arc<Shard>], turn: usize) -> &Arc<Shard> {
        loop {
            let (before, from) = shards.split_at(turn % shards.len());
            // Relaxed, as everywhere: a number for itself.
            let homes = from.iter().chain(before).map(|shard| (shard.homes.load(Ordering::Relaxed), shard));
            let (homes, shard) = fewest(homes).expect("a service has shards");
            // Of threads that choose at the same time one succeeds, and the others look again.
            if shard.homes.compare_exchange(homes, homes + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                return shard;
            }
        }
    }

    /// A thread that has chosen this shard as its home schedules here no more.
    pub(super) fn leave_home(&self) {
        self.homes.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns the first with the smallest number. Looks no further than to the first zero.
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
