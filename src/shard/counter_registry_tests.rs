//! Unit tests of `counter_registry`.

use super::*;

/// Returns the number of counters in the list.
fn linked(registry: &Registry) -> usize {
    let guard = epoch::pin();
    // SAFETY: the first counters are in the list, because no thread unlinks any meanwhile.
    unsafe { list_from(registry.head(), &guard) }.count()
}

#[test]
fn counts_outlive_their_thread() {
    let registry = Registry::new(16);
    let (stays, ends) = (registry.register(), registry.register());
    stays.counters.scheduled.add(1);
    ends.counters.scheduled.add(10);
    registry.unregister(&ends);
    drop(ends);
    assert_eq!(registry.read().scheduled, 11);
    registry.register().counters.scheduled.add(100);
    assert_eq!((registry.read().scheduled, linked(&registry)), (111, 3));
}

#[test]
fn counters_of_a_peak_are_merged_and_freed() {
    const PEAK: usize = 10_000;
    let registry = Registry::new(16);
    let stays = registry.register();
    let all: Vec<_> = (0..PEAK).map(|_| registry.register()).collect();
    let weak: Vec<_> = all.iter().map(Arc::downgrade).collect();
    for (ended, counters) in (1..).zip(all) {
        counters.counters.fired.add(1);
        counters.counters.record_lateness(1_000_000);
        registry.unregister(&counters);
        if ended % 100 == 0 {
            let read = registry.read();
            assert_eq!((read.fired, read.lateness.count()), (ended, ended));
        }
    }
    assert!(!registry.has_surplus());
    let read = registry.read();
    assert_eq!((read.fired, read.lateness.count()), (PEAK as u64, PEAK as u64));
    assert!(linked(&registry) <= 16 + 1, "{} are left", linked(&registry));
    // Other tests may have pinned the epoch.
    let freed = || weak.iter().filter(|counters| counters.strong_count() == 0).count();
    while freed() < PEAK - 16 {
        std::thread::yield_now();
        epoch::pin().flush();
    }
    stays.counters.fired.add(1);
    assert_eq!(registry.read().fired, PEAK as u64 + 1);
}

#[test]
fn threads_that_come_and_go_lose_no_count() {
    let registry = Registry::new(1);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let counters = registry.register();
                    counters.counters.fired.add(1);
                    registry.unregister(&counters);
                }
            });
        }
        let mut last = 0;
        while last < 800 {
            let now = registry.read().fired;
            assert!((last..=800).contains(&now));
            last = now;
        }
    });
}
