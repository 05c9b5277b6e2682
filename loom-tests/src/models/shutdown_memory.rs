//! Explores a shutdown against blocks that are retired, and the end of the shard's own memory.
//!
//! Invariant: `close` visits every block in use and no retired one, and the last handle frees the shard once.
//!
//! Promise: the shutdown loses nothing.

use std::ptr::NonNull;

use loom::sync::Arc;
use loom::thread;

use super::{Fixture, explore};
use crate::engine::core::Core;
use crate::engine::entry::CLOSED;
use crate::engine::memory::{Cache, Slab};
use crate::engine::wakeup::DriverWakeup;
use crate::race_detector::RaceDetector;

/// A thread schedules in a block that was retired.
#[test]
fn shutdown_against_schedule_in_a_retired_block() {
    explore(|| {
        let fixture = Fixture::new();
        fixture.alloc_block();
        let scheduler =
            fixture.spawn(|fixture| fixture.schedule(&mut Cache::new(), fixture.counts.once(), 9).is_some());
        // SAFETY: this thread allocated the block.
        unsafe { fixture.core.slab.retire(vec![0]) };
        fixture.close(5);
        let accepted = scheduler.join().unwrap();
        assert_eq!(fixture.counts.unfired(), usize::from(accepted));
        assert_eq!(fixture.counts.dropped(), 1);
    });
}

/// One thread retires the block, another allocates it, and a third closes the slab.
#[test]
fn shutdown_against_schedule_in_a_block_that_is_being_retired() {
    explore(|| {
        let fixture = Fixture::new();
        fixture.alloc_block();
        let driver = fixture.spawn(|fixture| {
            // SAFETY: no thread uses the block that was allocated above.
            unsafe { fixture.core.slab.retire(vec![0]) };
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

/// Exactly one of the handles and the shutdown finds that it dropped the last handle.
#[test]
fn the_last_handle_is_found_once() {
    explore(|| {
        let fixture = Fixture::new();
        let mut cache = Cache::new();
        let handles = [1, 2].map(|deadline| fixture.schedule(&mut cache, fixture.counts.once(), deadline).unwrap());
        let droppers = handles.map(|handle| fixture.spawn(move |fixture| fixture.release(handle, &mut Cache::new())));
        let freed = fixture.close(0);
        let last = droppers.map(|dropper| usize::from(dropper.join().unwrap()));
        assert_eq!(usize::from(freed) + last[0] + last[1], 1);
    });
}

/// A core in memory of its own, like a shard's.
struct Shard {
    core: Core,
    memory: RaceDetector,
}

/// The handle of an entry. All handles share one reference count of the shard.
struct RawHandle(NonNull<Shard>, u32);

// SAFETY: the model checks that the shard outlives its handles.
unsafe impl Send for RawHandle {}

impl RawHandle {
    /// As `Shard::release`.
    fn release(self) {
        let Self(shard, index) = self;
        {
            // SAFETY: the handle keeps the shard alive.
            let shard = unsafe { shard.as_ref() };
            shard.memory.read();
            if !shard.core.slab.get(index).release().has(CLOSED) {
                return;
            }
        }
        // SAFETY: the handle keeps the shard alive until `subtract_handle`.
        if unsafe { Core::subtract_handle(NonNull::new_unchecked(&raw mut (*shard.as_ptr()).core)) } {
            // SAFETY: `close` left one reference count to the handles, and this was the last of them.
            drop(unsafe { Arc::from_raw(shard.as_ptr()) });
        }
    }
}

/// The last handle, or the thread that shuts down, frees the shard.
#[test]
fn the_last_handle_frees_the_shard() {
    explore(|| {
        let shard = Arc::new(Shard {
            core: Core::new(Slab::new().unwrap(), u64::MAX, usize::MAX, DriverWakeup::alone()),
            memory: RaceDetector::default(),
        });
        let mut cache = Cache::new();
        let threads = [(); 2].map(|()| {
            let (_, index) = shard.core.reserve(&mut cache).unwrap();
            let handle = RawHandle(NonNull::from(&*shard), index);
            thread::spawn(move || handle.release())
        });
        let pinned = Arc::into_raw(shard.clone());
        if shard.core.close() {
            // SAFETY: we own the count that `into_raw` made, because no handle is left.
            drop(unsafe { Arc::from_raw(pinned) });
        }
        shard.core.claim_closures(drop);
        shard.core.take_claimed(0).for_each(drop);
        drop(shard);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
