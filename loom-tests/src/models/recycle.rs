//! Explores a cache that takes entries from the depot, against one that gives entries back.
//!
//! Invariant: no ABA, and no entry is handed out twice.
//!
//! Promise: exactly once; memory comes back.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering::Relaxed};
use loom::thread;

use super::{Fixture, explore};
use crate::engine::memory::Cache;

/// Records which entries are owned, and detects a thread that takes an entry that is already owned.
#[derive(Clone)]
struct Owned(Arc<[AtomicBool; ENTRIES]>);

/// More entries than any model here allocates.
const ENTRIES: usize = 16;

impl Owned {
    fn new() -> Self {
        Self(Arc::new(std::array::from_fn(|_| AtomicBool::new(false))))
    }

    fn mark_owned(&self, index: u32) {
        assert!(!self.0[index as usize].swap(true, Relaxed), "entry {index} was handed out twice");
    }

    /// Takes a magazine from the depot.
    fn take_batch(&self, fixture: &Fixture) -> Vec<u32> {
        let mut taken = Vec::new();
        fixture.core.depot.pop(&fixture.core.slab, |index| taken.push(index));
        taken.iter().for_each(|&index| self.mark_owned(index));
        taken
    }

    fn give_batch(&self, fixture: &Fixture, batch: &[u32]) {
        batch.iter().for_each(|&index| self.0[index as usize].store(false, Relaxed));
        fixture.core.push_to_depot(batch);
    }

    fn take(&self, fixture: &Fixture) -> Option<u32> {
        let taken = self.take_batch(fixture);
        assert!(taken.len() <= 1, "each magazine has one entry");
        taken.first().copied()
    }

    fn give(&self, fixture: &Fixture, index: u32) {
        self.give_batch(fixture, &[index]);
    }
}

/// One thread is in the middle of a pop, while another pops two entries and pushes the first again: the classic ABA.
#[test]
fn no_entry_is_handed_out_twice() {
    explore(|| {
        let fixture = Fixture::new();
        let owned = Owned::new();
        for _ in 0..2 {
            fixture.alloc_block();
        }
        for index in [2, 1, 0] {
            owned.give(&fixture, index);
        }
        let other = {
            let owned = owned.clone();
            fixture.spawn(move |fixture| {
                let first = owned.take(fixture);
                let second = owned.take(fixture);
                if let Some(first) = first {
                    owned.give(fixture, first);
                }
                let third = owned.take(fixture);
                [second, third].into_iter().flatten().count()
            })
        };
        let mine = usize::from(owned.take(&fixture).is_some());
        let theirs = other.join().unwrap();
        let left = std::iter::from_fn(|| owned.take(&fixture)).count();
        assert_eq!(mine + theirs + left, 3);
    });
}

/// An entry that passes between threads through the depot carries its callback without a data race.
#[test]
fn an_entry_is_used_by_one_thread_at_a_time() {
    explore(|| {
        let fixture = Fixture::new();
        let user = |fixture: Fixture| {
            move || {
                let mut cache = Cache::new();
                let handle = fixture.schedule(&mut cache, fixture.counts.once(), 9).unwrap();
                assert!(fixture.cancel(&handle));
                fixture.release(handle, &mut cache);
                fixture.core.drain_cache(&mut cache);
            }
        };
        let other = thread::spawn(user(fixture.clone()));
        user(fixture.clone())();
        let mut driver = fixture.driver();
        let worker = fixture.worker(0);
        fixture.drive(&mut driver, &worker);
        other.join().unwrap();
        assert_eq!((fixture.counts.run(), fixture.counts.dropped()), (0, 2));
        fixture.assert_all_free(&mut driver, [&mut worker.into_cache()]);
    });
}

/// Two threads allocate while blocks are retired, and a retired block is allocated once.
#[test]
fn a_retired_block_is_handed_out_once() {
    explore(|| {
        let fixture = Fixture::new();
        for _ in 0..2 {
            fixture.alloc_block();
        }
        let other = fixture.spawn(|fixture| fixture.alloc_block());
        // SAFETY: this thread allocated the blocks.
        unsafe { fixture.core.slab.retire(vec![0, 1]) };
        let mine = fixture.alloc_block();
        let theirs = other.join().unwrap();
        assert_ne!(mine, theirs);
    });
}

/// A worker pushes a timer that was reset, while the timer is cancelled and the driver retires memory.
#[test]
fn an_enqueued_entry_is_not_retired() {
    explore(|| {
        let fixture = Fixture::with_retained(1);
        let mut driver = fixture.driver();
        let mut cache = Cache::new();
        let handle = fixture.schedule(&mut cache, fixture.counts.once(), 0).unwrap();
        let batch = fixture.collect_batch(&mut driver, 0);
        assert_eq!(batch.len(), 1, "the timer has expired");
        assert!(fixture.reset(&handle, 9, 0));
        let sender = fixture.spawn(move |fixture| {
            let worker = fixture.worker(0);
            worker.run(&batch[..1]);
            worker.into_cache()
        });
        let canceller = fixture.spawn_canceller(handle, cache);
        let worker = fixture.worker(0);
        fixture.drive(&mut driver, &worker);
        canceller.join().unwrap();
        let mut sent = sender.join().unwrap();
        assert_eq!((fixture.counts.run(), fixture.counts.dropped()), (0, 1));
        fixture.assert_all_free(&mut driver, [&mut sent, &mut worker.into_cache()]);
    });
}

/// One thread is in the middle of a pop, while the driver retires all that is in the depot, which leaves zeros there, and
/// allocates it again. As many magazines are pushed as before. The same entry is on top, but another one below it.
#[test]
fn a_pop_during_a_retirement() {
    explore(|| {
        let fixture = Fixture::with_retained(0);
        let owned = Owned::new();
        let mut driver = fixture.driver();
        for _ in 0..2 {
            fixture.alloc_block();
        }
        // The block that is allocated first is on top.
        owned.give_batch(&fixture, &[0, 1]);
        owned.give_batch(&fixture, &[2, 3]);
        let other = {
            let owned = owned.clone();
            fixture.spawn(move |fixture| owned.take_batch(fixture))
        };
        while driver.reclaim(&fixture.core) {}
        let allocate = || {
            let mut taken = Vec::new();
            fixture.core.slab.alloc(|index| taken.insert(0, index)).unwrap();
            taken.iter().for_each(|&index| owned.mark_owned(index));
            taken
        };
        let (first, mut second) = (allocate(), allocate());
        second.reverse();
        owned.give_batch(&fixture, &second);
        owned.give_batch(&fixture, &first);
        other.join().unwrap();
        while !owned.take_batch(&fixture).is_empty() {}
        for _ in 0..2 {
            allocate();
        }
        assert!(owned.0[..4].iter().all(|owned| owned.load(Relaxed)), "no entry is lost");
    });
}

/// A thread frees more entries than its cache holds. Those that go to the depot are no longer in its cache.
#[test]
fn a_cache_that_overflows() {
    explore(|| {
        let fixture = Fixture::new();
        let mut cache = Cache::new();
        let mut driver = fixture.driver();
        let handles = [9; 5].map(|at| fixture.schedule(&mut cache, fixture.counts.once(), at).unwrap());
        let other = fixture.spawn(|fixture| {
            let mut cache = Cache::new();
            let handle = fixture.schedule(&mut cache, fixture.counts.once(), 9).unwrap();
            fixture.core.drain_cache(&mut cache);
            (handle, cache)
        });
        for handle in handles {
            assert!(fixture.cancel(&handle));
            fixture.release(handle, &mut cache);
        }
        let mine = [9; 4].map(|at| fixture.schedule(&mut cache, fixture.counts.once(), at).unwrap());
        let (first, mut other_cache) = other.join().unwrap();
        let second = fixture.schedule(&mut other_cache, fixture.counts.once(), 9).unwrap();
        for handle in mine.into_iter().chain([first, second]) {
            assert!(fixture.cancel(&handle), "each timer has its own entry");
            fixture.release(handle, &mut cache);
        }
        assert_eq!(fixture.counts.dropped(), 11);
        fixture.assert_all_free(&mut driver, [&mut cache, &mut other_cache]);
    });
}
