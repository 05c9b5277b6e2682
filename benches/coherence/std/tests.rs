//! Checks the count in cases whose result is known.

use std::sync::Arc as Unrecorded;

use super::count::{self, Count};
use super::sync::atomic::{AtomicU64, Ordering};
use super::sync::{Arc, Mutex};
use super::thread;
use super::{schedule, simulate};

const ROUNDS: u64 = 100;

/// Counts the steps of two threads with `shared`. The threads alternate: each round is one step of each.
fn count_turns<S: Send + Sync + 'static>(shared: S, step: fn(&S, usize)) -> Count {
    simulate(1, schedule::MEAN_TURN, || {
        let shared = Unrecorded::new(shared);
        let turns = [0, 1].map(|number| {
            let shared = shared.clone();
            thread::spawn(move || {
                for round in 0..ROUNDS as usize {
                    schedule::wait_for_phase(2 * round + number + 1);
                    step(&shared, number);
                }
                // The end of the thread is not counted.
                schedule::wait_for_phase(2 * ROUNDS as usize + 1);
            })
        });
        schedule::settle(2);
        count::begin();
        for phase in 1..=2 * ROUNDS as usize {
            schedule::begin_phase(phase);
            // Wait until the thread of this phase waits for its next one.
            schedule::settle(1);
        }
        let count = count::end();
        schedule::begin_phase(2 * ROUNDS as usize + 1);
        turns.into_iter().for_each(|turn| turn.join().unwrap());
        count
    })
}

#[test]
fn a_counter_of_two_threads_is_transferred_at_each_alternation() {
    let count = count_turns(AtomicU64::new(0), |counter, _| _ = counter.fetch_add(1, Ordering::Relaxed));
    assert_eq!((count.transfers(), count.accesses), (2 * ROUNDS - 1, 2 * ROUNDS));
}

#[test]
fn counters_on_one_line_are_transferred_as_one_counter_is() {
    let counters = Shared([AtomicU64::new(0), AtomicU64::new(0)]);
    let count = count_turns(counters, |counters, number| _ = counters.0[number].fetch_add(1, Ordering::Relaxed));
    assert_eq!(count.transfers(), 2 * ROUNDS - 1);
}

#[repr(align(64))]
struct Shared([AtomicU64; 2]);

#[repr(align(64))]
struct Line(AtomicU64);

#[test]
fn counters_on_lines_of_their_own_stay() {
    let counters = [Line(AtomicU64::new(0)), Line(AtomicU64::new(0))];
    let count = count_turns(counters, |counters, number| _ = counters[number].0.fetch_add(1, Ordering::Relaxed));
    assert_eq!((count.transfers(), count.accesses), (0, 2 * ROUNDS));
}

#[test]
fn a_value_that_both_threads_only_read_stays() {
    let count = count_turns(AtomicU64::new(0), |number, _| _ = number.load(Ordering::Relaxed));
    assert_eq!(count.transfers(), 0);
}

/// The lock and its value share a line, which is transferred once for each alternation.
#[test]
fn a_lock_is_transferred_with_its_value() {
    let count = count_turns(Locked(Mutex::new(0)), |locked, _| *locked.0.lock().unwrap() += 1);
    assert_eq!(count.transfers(), 2 * ROUNDS - 1);
}

#[repr(align(64))]
struct Locked(Mutex<u64>);

/// A clone and its drop are one transfer.
#[test]
fn a_reference_count_is_transferred() {
    let count = count_turns(Arc::new(0), |shared, _| drop(shared.clone()));
    assert_eq!((count.transfers(), count.accesses), (2 * ROUNDS - 1, 4 * ROUNDS));
}

#[test]
fn the_counts_of_an_arc_have_the_assumed_addresses() {
    #[repr(align(128))]
    struct Wide;

    fn assert_counts<T>(shared: Arc<T>) {
        let _others = [shared.clone(), shared.clone()];
        let weak = Arc::downgrade(&shared);
        let counts: *const usize = std::ptr::with_exposed_provenance(shared.counts());
        // SAFETY: we own all references, so no other thread changes the counts. The standard library does not specify
        // their addresses; this test fails if they change.
        assert_eq!(unsafe { [counts.read(), counts.add(1).read()] }, [3, 2]);
        drop(weak);
    }

    assert_counts(Arc::new(1_u8));
    assert_counts(Arc::new([1_u64; 9]));
    assert_counts(Arc::new(Wide));
}

#[test]
fn replacements_have_the_size_and_alignment_of_the_originals() {
    fn assert_same<T, U>() {
        assert_eq!((size_of::<T>(), align_of::<T>()), (size_of::<U>(), align_of::<U>()));
    }

    assert_same::<AtomicU64, std::sync::atomic::AtomicU64>();
    assert_same::<super::sync::atomic::AtomicBool, std::sync::atomic::AtomicBool>();
    assert_same::<super::sync::atomic::AtomicPtr<u8>, std::sync::atomic::AtomicPtr<u8>>();
    assert_same::<super::sync::RecordedCell<[u32; 3]>, std::cell::UnsafeCell<[u32; 3]>>();
    assert_same::<Arc<u8>, std::sync::Arc<u8>>();
    assert_same::<super::sync::Weak<u8>, std::sync::Weak<u8>>();
    assert_same::<super::thread::Thread, std::thread::Thread>();
    assert_same::<super::sync::OnceLock<u64>, std::sync::OnceLock<u64>>();
    assert_same::<super::sync::OnceLock<u8>, std::sync::OnceLock<u8>>();
    #[cfg(target_os = "linux")]
    {
        assert_same::<Mutex<()>, std::sync::Mutex<()>>();
        assert_same::<Mutex<u64>, std::sync::Mutex<u64>>();
        assert_same::<super::sync::Condvar, std::sync::Condvar>();
    }
}

/// Tests waiting, waking and virtual time.
#[test]
fn threads_wait_for_each_other_and_for_time() {
    use super::time::{Duration, Instant};

    simulate(7, schedule::MEAN_TURN, || {
        let start = Instant::now();
        let sleeper = thread::spawn(|| thread::park_timeout(Duration::from_secs(60)));
        let parked = thread::spawn(thread::park);
        schedule::settle(0);
        assert_eq!(start.elapsed(), Duration::ZERO);
        parked.thread().unpark();
        parked.join().unwrap();
        sleeper.join().unwrap();
        assert_eq!(start.elapsed(), Duration::from_secs(60));
    });
}
