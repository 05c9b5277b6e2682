//! Explores a thread that reads what is pending, while others end that timer and use the entry for the next.
//!
//! Invariant: the reader finds a timer with its own name and deadline, or none.
//!
//! Promise: exactly once.

use super::{Fixture, explore};
use crate::engine::entry::{Callback, Entry};
use crate::engine::memory::Cache;

struct First;
struct Second;

/// What the reader finds of a timer: its deadline, and the name of its callback's type.
fn observe(entry: &Entry) -> Option<(u64, &'static str)> {
    entry.observe().map(|(state, name)| (state.deadline(0), name.rsplit("::").next().expect("a name")))
}

/// A caller cancels the first timer, and uses its entry for the second.
///
/// The reader is the spawned thread, because loom shows it any older value that it may read. A read is no step at which
/// loom changes threads.
#[test]
fn of_an_entry_that_is_used_again() {
    explore(|| {
        let fixture = Fixture::new();
        let mut cache = Cache::new();
        let handle = fixture.schedule(&mut cache, Callback::once::<_, First>(|| ()), 5).unwrap();
        let index = handle.0;
        let reader = fixture.spawn(move |fixture| observe(fixture.core.slab.get(index)));
        assert!(fixture.cancel(&handle));
        fixture.release(handle, &mut cache);
        let handle = fixture.schedule(&mut cache, Callback::once::<_, Second>(|| ()), 9).unwrap();
        assert_eq!(handle.0, index);
        let found = reader.join().unwrap();
        assert!([None, Some((5, "First")), Some((9, "Second"))].contains(&found), "{found:?}");
        let entry = fixture.core.slab.get(index);
        assert_eq!(observe(entry), Some((9, "Second")));
        assert!(fixture.cancel(&handle));
        assert_eq!(observe(entry), None);
        fixture.release(handle, &mut cache);
    });
}

/// The driver gives back the memory of the first timer, which has ended, and the second gets it anew.
#[test]
fn of_memory_that_is_given_back() {
    explore(|| {
        let fixture = Fixture::with_retained(0);
        let (mut driver, worker) = (fixture.driver(), fixture.worker(0));
        let mut cache = Cache::new();
        let handle = fixture.schedule(&mut cache, Callback::once::<_, First>(|| ()), 5).unwrap();
        fixture.drive(&mut driver, &worker);
        let reader = fixture.spawn(|fixture| fixture.core.slab.in_memory().filter_map(observe).collect::<Vec<_>>());
        assert!(fixture.cancel(&handle));
        fixture.release(handle, &mut cache);
        fixture.core.drain_cache(&mut cache);
        fixture.drive(&mut driver, &worker);
        assert_eq!(fixture.core.slab.len(), 0);
        let handle = fixture.schedule(&mut cache, Callback::once::<_, Second>(|| ()), 9).unwrap();
        let found = reader.join().unwrap();
        assert!(found.iter().all(|found| [(5, "First"), (9, "Second")].contains(found)), "{found:?}");
        assert!(fixture.cancel(&handle));
        fixture.release(handle, &mut cache);
    });
}

/// A worker runs the timer, and arms it for the next run; a caller resets it.
#[test]
fn of_a_periodic_timer_that_runs() {
    explore(|| {
        let fixture = Fixture::new();
        let mut driver = fixture.driver();
        let mut cache = Cache::new();
        let handle = fixture.schedule(&mut cache, fixture.counts.repeating(5, 4, 2), 5).unwrap();
        let index = handle.0;
        let reader = fixture.spawn(move |fixture| {
            let found = observe(fixture.core.slab.get(index));
            assert!([Some((5, "Repeating")), Some((9, "Repeating"))].contains(&found), "{found:?}");
        });
        let worker = fixture.worker(5);
        fixture.drive_until_runs(&mut driver, &worker, 1);
        reader.join().unwrap();
        assert!(fixture.cancel(&handle));
        fixture.release(handle, &mut cache);
    });
}
