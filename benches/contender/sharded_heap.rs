//! Several textbook timers, to measure the gain of sharding alone.

use std::array;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;
use std::time::Duration;

use super::heap::HeapTimer;
use super::interface::Contender;

const SHARDS: usize = 8;

static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static SHARD: usize = THREADS.fetch_add(1, Ordering::Relaxed) % SHARDS;
}

/// Eight heaps. Each thread schedules in a shard of its own, unless there are more threads than shards.
pub struct ShardedHeap([HeapTimer; SHARDS]);

pub struct Handle {
    shard: usize,
    in_shard: <HeapTimer as Contender>::Handle,
}

impl Contender for ShardedHeap {
    const NAME: &'static str = "heap-in-8-shards";
    type Handle = Handle;

    fn start() -> Self {
        Self(array::from_fn(|_| HeapTimer::start()))
    }

    fn schedule(&self, delay: Duration, target: Arc<impl Wake + Send + Sync + 'static>) -> Handle {
        let shard = SHARD.with(|shard| *shard);
        Handle { shard, in_shard: self.0[shard].schedule(delay, target) }
    }

    fn cancel(&self, handle: Handle) -> Option<bool> {
        self.0[handle.shard].cancel(handle.in_shard)
    }

    fn rearm(
        &self,
        handle: &mut Handle,
        delay: Duration,
        target: &Arc<impl Wake + Send + Sync + 'static>,
    ) -> Option<bool> {
        self.0[handle.shard].rearm(&mut handle.in_shard, delay, target)
    }
}
