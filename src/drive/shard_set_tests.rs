//! Unit tests of `shard_set`, on a thread that plays the service's own threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::super::own_thread::{ExecuteSignal, OwnThread};
use super::*;
use crate::clock::Ticks;
use crate::engine::entry::Callback;
use crate::engine::memory::Slab;
use crate::executor::Pool;
use crate::shard::{NewTimer, ShardSettings};

/// Shards that fold, and a pool without workers.
fn shard_set(shards: usize) -> Arc<ShardSet> {
    let dispatcher = Dispatcher::Own(Pool::without_threads());
    let levels = (0..shards).map(|_| Levels::new(0, &[64], 2).expect("a valid level")).collect();
    let new = |_, wakeup| {
        let ticks = Ticks::new(None, Duration::from_millis(1));
        Shard::new(Slab::new().unwrap(), wakeup, ticks, ShardSettings::default())
    };
    Arc::new(ShardSet::new(levels, dispatcher, true, Gate::new(0, 0), new))
}

fn leader(shard_set: &Arc<ShardSet>) -> OwnThread {
    OwnThread::new(shard_set, LEADER, None, ExecuteSignal::new())
}

#[test]
fn a_leader_that_is_behind_gets_no_other_shard() {
    for is_behind in [false, true] {
        let shard_set = shard_set(2);
        let mut leader = leader(&shard_set);
        let shard = &shard_set.shards[1];
        shard.core.wakeup.change_role(LEADER, 1);
        let begun = Instant::now() + LOAD_INTERVAL;
        if is_behind {
            thread::sleep(LOAD_INTERVAL);
            leader.make_turns(&shard_set);
        }
        shard_set.balance(1, 0);
        let is_folded = shard.core.wakeup.seat.role() == LEADER;
        assert!(is_folded != is_behind || begun.elapsed() > LOAD_INTERVAL, "{is_folded}");
    }
}

/// Schedules values that are due, each of which counts itself.
fn add_values(shard: &Arc<Shard>, values: usize) -> Arc<AtomicUsize> {
    let count = Arc::new(AtomicUsize::new(0));
    for _ in 0..values {
        let counts = count.clone();
        let callback = Callback::value::<_, ()>(move |_, _| _ = counts.fetch_add(1, Ordering::Relaxed));
        let timer = NewTimer::new(1, || &**shard).expect("the shard is open");
        let armed = timer.arm_with(callback, shard.ticks.after(Duration::ZERO));
        let Ok(raw) = armed else { panic!("the shard is open") };
        // SAFETY: it is released once.
        unsafe { Shard::release(raw) };
    }
    count
}

#[test]
fn a_backlog_of_values_ends_no_later_than_one_of_callbacks() {
    const VALUES: usize = 2000;
    let shard_set = shard_set(2);
    let count = add_values(&shard_set.shards[0], VALUES);
    let mut leader = leader(&shard_set);
    let mut most = 0;
    while count.load(Ordering::Relaxed) < VALUES {
        let before = count.load(Ordering::Relaxed);
        let expired = leader.make_turns(&shard_set);
        leader.hand_out(&shard_set, expired);
        most = most.max(count.load(Ordering::Relaxed) - before);
    }
    assert!((1..VALUES / 4).contains(&most), "{most}");
}
