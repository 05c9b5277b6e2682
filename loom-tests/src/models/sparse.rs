//! Explores sparse blocks, whose free entries are set aside.
//!
//! Invariant: an entry that is set aside is neither lost nor taken twice, whatever happens to its block.
//!
//! Promise: memory comes back.

use loom::thread::JoinHandle;

use super::{Fixture, explore};
use crate::engine::memory::{Cache, members};

/// Creates a sparse block whose second entry is set aside. The caller owns the first.
fn sparse_block(fixture: &Fixture) {
    assert_eq!(fixture.alloc_block(), 0);
    // SAFETY: no thread uses the allocated block, so this thread may act as the driver.
    unsafe { fixture.core.slab.set_aside_any(1) };
    fixture.core.slab.mark_sparse(0);
}

/// Starts a thread that sets the first entry aside, and returns the entries that it got back.
fn spawn_set_aside(fixture: &Fixture) -> JoinHandle<Vec<u32>> {
    fixture.spawn(|fixture| {
        let mut back = Vec::new();
        // SAFETY: we own the entry, because the caller of `sparse_block` owns it.
        unsafe { fixture.core.slab.set_aside(0, |index| back.push(index)) };
        back
    })
}

fn adopt(fixture: &Fixture) -> Vec<u32> {
    let mut adopted = Vec::new();
    fixture.core.slab.adopt(u32::MAX, |index| adopted.push(index));
    adopted
}

/// Asserts that each of the two entries was taken once, including those left in a sparse block.
fn assert_each_taken_once(fixture: &Fixture, parts: impl IntoIterator<Item = Vec<u32>>) {
    let mut all: Vec<_> = parts.into_iter().flatten().chain(adopt(fixture)).collect();
    all.sort_unstable();
    assert_eq!(all, [0, 1]);
}

#[test]
fn an_entry_is_set_aside_while_its_block_is_adopted() {
    explore(|| {
        let fixture = Fixture::new();
        sparse_block(&fixture);
        let setter = spawn_set_aside(&fixture);
        let adopter = fixture.spawn(adopt);
        let parts = [setter.join().unwrap(), adopter.join().unwrap()];
        assert_each_taken_once(&fixture, parts);
    });
}

#[test]
fn a_block_becomes_free_while_two_threads_claim_it() {
    explore(|| {
        let fixture = Fixture::new();
        sparse_block(&fixture);
        let setter = spawn_set_aside(&fixture);
        let adopter = fixture.spawn(adopt);
        let mut mine = Vec::new();
        if fixture.core.slab.claim_page(0, |index| mine.push(index)) {
            mine.extend([0, 1]);
        }
        let parts = [setter.join().unwrap(), adopter.join().unwrap(), mine];
        assert_each_taken_once(&fixture, parts);
    });
}

/// The driver finds a block sparse, and sleeps. When the last timer in the block ends, the driver wakes and retires it.
#[test]
fn a_free_block_is_retired() {
    explore(|| {
        let fixture = Fixture::with_retained(1);
        let mut driver = fixture.driver();
        let worker = fixture.worker(5);
        let mut cache = Cache::new();
        let [first, second] = [100, 100].map(|at| fixture.schedule(&mut cache, fixture.counts.once(), at).unwrap());
        fixture.drive(&mut driver, &worker);
        assert!(fixture.cancel(&first));
        fixture.release(first, &mut cache);
        fixture.core.drain_cache(&mut cache);
        fixture.drive(&mut driver, &worker);
        assert_eq!((fixture.core.slab.len(), fixture.core.slab.len_outside_sparse()), (2, 0), "the block is sparse");
        let canceller = fixture.spawn_canceller(second, cache);
        while fixture.core.slab.len() > 0 {
            fixture.sleep(&driver, &worker);
            fixture.drive(&mut driver, &worker);
        }
        canceller.join().unwrap();
        fixture.assert_all_free(&mut driver, [&mut worker.into_cache()]);
    });
}

/// A thread uses a sparse block, and empties it, while the driver retires memory.
#[test]
fn a_sparse_block_is_used_during_a_trim() {
    explore(|| {
        let fixture = Fixture::with_retained(1);
        let mut driver = fixture.driver();
        let mut cache = Cache::new();
        let survivor = fixture.schedule(&mut cache, fixture.counts.once(), 9).unwrap();
        fixture.core.drain_cache(&mut cache);
        let worker = fixture.worker(0);
        fixture.drive(&mut driver, &worker);
        let user = fixture.spawn(move |fixture| {
            let mut cache = Cache::new();
            let handle = fixture.schedule(&mut cache, fixture.counts.once(), 9).unwrap();
            for handle in [survivor, handle] {
                assert!(fixture.cancel(&handle));
                fixture.release(handle, &mut cache);
            }
            fixture.core.drain_cache(&mut cache);
        });
        fixture.drive(&mut driver, &worker);
        user.join().unwrap();
        assert_eq!((fixture.counts.run(), fixture.counts.dropped()), (0, 2));
        fixture.assert_all_free(&mut driver, [&mut worker.into_cache()]);
    });
}

/// One thread sets an entry aside, and another gives it to the depot, which writes into it.
#[test]
fn an_adopted_entry_goes_to_the_pool() {
    explore(|| {
        let fixture = Fixture::new();
        let handle = fixture.schedule(&mut Cache::new(), fixture.counts.once(), 9).expect("an open shard");
        fixture.core.slab.mark_sparse(0);
        let canceller = fixture.spawn(move |fixture| {
            assert!(fixture.cancel(&handle));
            fixture.release(handle, &mut Cache::new());
        });
        adopt(&fixture).into_iter().for_each(|index| fixture.core.push_to_depot(&[index]));
        canceller.join().unwrap();
        assert_eq!(fixture.counts.dropped(), 1);
    });
}

/// As above, but the driver has taken the entry out of the depot.
#[test]
fn an_entry_set_aside_for_a_scan_goes_to_the_depot() {
    explore(|| {
        let fixture = Fixture::new();
        let first = fixture.alloc_block();
        fixture.core.push_to_depot(&[first]);
        let driver = fixture.spawn(|fixture| {
            let slab = &fixture.core.slab;
            // SAFETY: this thread acts as the driver, and owns what it takes out of the depot.
            unsafe { members(slab, fixture.core.depot.take_all()).for_each(|index| slab.set_aside_any(index)) };
            slab.mark_sparse(0);
        });
        adopt(&fixture).into_iter().for_each(|index| fixture.core.push_to_depot(&[index]));
        driver.join().unwrap();
    });
}

/// Takes the only entry in the depot, and sets it aside.
fn pop(fixture: &Fixture) -> bool {
    fixture.core.depot.pop(&fixture.core.slab, |index| fixture.core.recycle(&mut Cache::new(), index))
}

/// Two threads want the only entry in the depot. One of them sets it aside, and the driver retires the block.
#[test]
fn a_popped_entry_is_retired() {
    explore(|| {
        let fixture = Fixture::new();
        sparse_block(&fixture);
        fixture.core.push_to_depot(&[0]);
        let popper = fixture.spawn(pop);
        let mine = pop(&fixture);
        let slab = &fixture.core.slab;
        if slab.claim_page(0, drop) {
            assert!([0, 1].iter().all(|&index| slab.get(index).reclaim().is_some()), "both entries are free");
            // SAFETY: this thread acts as the driver, and has claimed all entries of the block.
            unsafe { slab.retire(vec![0]) };
        }
        assert_ne!(popper.join().unwrap(), mine, "exactly one thread popped the entry");
    });
}
