//! Model 10: threads that register and unregister, and a driver that folds the counters they left and frees them, against
//! a reader of the sum.
//!
//! Fails if a reader does not pin the epoch (mutation `registry-unpinned`), if unlinked counters are freed at once
//! (`registry-freed-early`), if a thread that registers meanwhile is unlinked with them (`registry-unlink-no-compare`), if a
//! reader loads the sum before it walks the list (`registry-sum-first`), if it counts what the sum contains
//! (`registry-counted-twice`), if the sum is not published (`registry-fold-relaxed`), if two threads pop at the same time
//! (`registry-two-pops`), or one that has not seen what the last one did (`registry-flag-relaxed`), and if counters are not
//! handed on (`registry-left-relaxed`). Explored only with `--cfg crossbeam_loom`, as crossbeam-epoch would not be modelled
//! without.

use loom::sync::Arc;
use loom::thread::{self, JoinHandle};

use super::explore;
use crate::source::shard::registry::{Registered, Registry};

/// Registers, and counts once.
fn register(registry: &Registry) -> Arc<Registered> {
    let counters = registry.register();
    counters.counters.count();
    counters
}

fn unregister(registry: &Registry, counters: Arc<Registered>) {
    // SAFETY: it is of this registry, and taken from the caller for good.
    unsafe { registry.unregister(&counters) };
}

/// Registers so many at once, and leaves them all.
fn register_and_unregister(registry: &Registry, count: usize) {
    let all: Vec<_> = (0..count).map(|_| register(registry)).collect();
    all.into_iter().for_each(|counters| unregister(registry, counters));
}

/// Starts a driver that makes so many turns: the first folds, the second unlinks, and more of them free. It does not go on
/// until nothing is left to do, as it could wait for a thread that pops.
fn spawn_trim(registry: &Arc<Registry>, turns: usize) -> JoinHandle<()> {
    let registry = registry.clone();
    thread::spawn(move || {
        for _ in 0..turns {
            registry.trim();
        }
    })
}

/// A reader counts everything once, whether the driver has folded it or not.
#[test]
fn trim_against_a_reader() {
    explore(|| {
        let registry = Arc::new(Registry::new(0));
        register_and_unregister(&registry, 1);
        let driver = spawn_trim(&registry, 3);
        assert_eq!(registry.read().scheduled, 1);
        driver.join().unwrap();
        assert_eq!(registry.read().scheduled, 1);
    });
}

/// A thread registers while the driver unlinks what was registered last.
#[test]
fn trim_against_register() {
    explore(|| {
        let registry = Arc::new(Registry::new(0));
        register_and_unregister(&registry, 1);
        let driver = spawn_trim(&registry, 2);
        let counters = register(&registry);
        driver.join().unwrap();
        assert_eq!(registry.read().scheduled, 2);
        unregister(&registry, counters);
        assert_eq!(registry.read().scheduled, 2);
    });
}

/// Two threads take over counters, and one of them leaves some again meanwhile: no two have the same counters at once, and
/// no count is lost.
#[test]
fn threads_register_and_unregister() {
    explore(|| {
        let registry = Arc::new(Registry::new(0));
        register_and_unregister(&registry, 2);
        let other = {
            let registry = registry.clone();
            thread::spawn(move || {
                let (first, second) = (register(&registry), register(&registry));
                unregister(&registry, first);
                second.counters.count();
            })
        };
        let (one, two) = (register(&registry), register(&registry));
        one.counters.count();
        two.counters.count();
        other.join().unwrap();
        assert_eq!(registry.read().scheduled, 2 + 3 + 4);
    });
}

/// A reader beside a thread that comes and goes sees its count or not.
#[test]
fn register_and_unregister_against_a_reader() {
    explore(|| {
        let registry = Arc::new(Registry::new(0));
        let counting = {
            let registry = registry.clone();
            thread::spawn(move || register_and_unregister(&registry, 1))
        };
        assert!(registry.read().scheduled <= 1);
        counting.join().unwrap();
        assert_eq!(registry.read().scheduled, 1);
    });
}
