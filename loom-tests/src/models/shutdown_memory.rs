//! Model 6, of memory: a shutdown against blocks that were given back to the system, and the end of the shard itself.
//!
//! Fails if a retired frame can be carved after the slab was closed (mutations `slab-close-not-shut`, `slab-alloc-shut`), if
//! `close` leaves a frame out that was carved off again (`slab-alloc-still-retired`), if the state of a frame does not order its
//! discard by one thread before its close by another (`slab-alloc-relaxed`, `slab-shut-relaxed`), if the count of handles
//! orders nothing (`core-pin-relaxed`, `core-pins-relaxed`), and if handles without a timer are not counted
//! (`core-pins-timers-only`).

use std::ptr::NonNull;

use loom::sync::Arc;
use loom::thread;

use super::{Fixture, explore};
use crate::engine::core::Core;
use crate::engine::entry::Release;
use crate::engine::memory::Cache;
use crate::race_detector::RaceDetector;

/// The entries come from a block that was given back to the system.
#[test]
fn shutdown_against_schedule_in_a_retired_block() {
    explore(|| {
        let fixture = Fixture::new();
        fixture.alloc_block();
        let scheduler =
            fixture.spawn(|fixture| fixture.schedule(&mut Cache::new(), fixture.counts.once(), 9).is_some());
        // SAFETY: it is this thread that carved the block.
        unsafe { fixture.core.slab.retire(0..1) };
        fixture.close(5);
        let accepted = scheduler.join().unwrap();
        assert_eq!(fixture.counts.unfired(), usize::from(accepted));
        assert_eq!(fixture.counts.dropped(), 1);
    });
}

/// One thread retires the block, another carves it, and a third closes the slab.
#[test]
fn shutdown_against_schedule_in_a_block_that_is_being_retired() {
    explore(|| {
        let fixture = Fixture::new();
        fixture.alloc_block();
        let driver = fixture.spawn(|fixture| {
            // SAFETY: nobody uses the block that was carved above.
            unsafe { fixture.core.slab.retire(0..1) };
        });
        let scheduler =
            fixture.spawn(|fixture| fixture.schedule(&mut Cache::new(), fixture.counts.once(), 9).is_some());
        fixture.close(5);
        driver.join().unwrap();
        let accepted = scheduler.join().unwrap();
        assert_eq!(fixture.counts.unfired(), usize::from(accepted));
        assert_eq!(fixture.counts.dropped(), 1);
    });
}

/// Of the handles and the shutdown, the last to let go knows it.
#[test]
fn the_last_pin_is_found_once() {
    explore(|| {
        let fixture = Fixture::new();
        let mut cache = Cache::new();
        let handles = [1, 2].map(|deadline| fixture.schedule(&mut cache, fixture.counts.once(), deadline).unwrap());
        let droppers = handles.map(|handle| fixture.spawn(move |fixture| fixture.release(handle, &mut Cache::new())));
        let unpinned = fixture.close(0);
        let last = droppers.map(|dropper| usize::from(dropper.join().unwrap()));
        assert_eq!(usize::from(unpinned) + last[0] + last[1], 1);
    });
}

/// A core in memory of its own, as a shard is.
struct Shard {
    core: Core,
    memory: RaceDetector,
}

/// The handle of an entry. All handles share one count of the shard.
struct RawHandle(NonNull<Shard>, u32);

// SAFETY: that the shard is there as long as its handles is what the model checks.
unsafe impl Send for RawHandle {}

impl RawHandle {
    /// As `Shard::release`.
    fn release(self) {
        let Self(shard, index) = self;
        {
            // SAFETY: the handle keeps the shard.
            let shard = unsafe { shard.as_ref() };
            shard.memory.read();
            if shard.core.slab.get(index).release() != Release::Closed {
                return;
            }
        }
        // SAFETY: the handle that this takes away keeps the shard until then.
        if unsafe { Core::unpin(NonNull::new_unchecked(&raw mut (*shard.as_ptr()).core)) } {
            // SAFETY: `close` left a count to the handles, and this was the last of them.
            drop(unsafe { Arc::from_raw(shard.as_ptr()) });
        }
    }
}

/// The last handle, or the thread that shuts down, frees the shard.
#[test]
fn the_last_pin_frees_the_shard() {
    explore(|| {
        let shard = Arc::new(Shard { core: Core::new(None, usize::MAX), memory: RaceDetector::default() });
        let mut cache = Cache::new();
        let threads = [(); 2].map(|()| {
            let (_, index) = shard.core.reserve(&mut cache).unwrap();
            let handle = RawHandle(NonNull::from(&*shard), index);
            thread::spawn(move || handle.release())
        });
        let pinned = Arc::into_raw(shard.clone());
        if shard.core.close().unpinned {
            // SAFETY: the count made above; no handle has a part in it.
            drop(unsafe { Arc::from_raw(pinned) });
        }
        shard.core.claim_closures(0, drop);
        drop(shard);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
