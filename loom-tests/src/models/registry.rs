//! Explores threads that register and unregister, and a driver that folds and frees unused counters, against a reader
//! of the sum.
//!
//! Invariant: a reader counts each event once, no two threads have the same counters at once, and no reader uses freed
//! memory.
//!
//! Fails under mutations:
//!
//! - `registry-unpinned`: a reader does not pin the epoch;
//! - `registry-freed-early`: unlinked counters are freed at once;
//! - `registry-unlink-no-compare`: unlinking also drops a thread that registers at the same time;
//! - `registry-sum-first`: a reader loads the sum before it walks the list;
//! - `registry-counted-twice`: a reader counts what the sum already contains;
//! - `registry-fold-relaxed`: the sum is not published;
//! - `registry-two-pops`: two threads pop at the same time;
//! - `registry-flag-relaxed`: a thread pops without having seen the effects of the previous pop;
//! - `registry-left-relaxed`: counters are not published to the next thread.
//!
//! Explored only with `--cfg crossbeam_loom`, without which crossbeam-epoch does not use loom.

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
    // SAFETY: the counters are of this registry, and the caller gives them up.
    unsafe { registry.unregister(&counters) };
}

/// Registers `count` times, and then unregisters all of them.
fn register_and_unregister(registry: &Registry, count: usize) {
    let all: Vec<_> = (0..count).map(|_| register(registry)).collect();
    all.into_iter().for_each(|counters| unregister(registry, counters));
}

/// Starts a driver that makes `turns` turns: the first folds, the second unlinks, and later ones free.
///
/// It must not repeat until nothing is left to do, because it could wait for a thread that pops.
fn spawn_trim(registry: &Arc<Registry>, turns: usize) -> JoinHandle<()> {
    let registry = registry.clone();
    thread::spawn(move || {
        for _ in 0..turns {
            registry.trim();
        }
    })
}

/// A reader counts each event once, whether the driver has folded it or not.
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

/// A thread registers while the driver unlinks the counters that were registered last.
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

/// Two threads take over counters, and one of them unregisters some meanwhile. No two threads have the same counters at
/// once, and no count is lost.
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

/// A reader either sees or misses the count of a thread that registers and unregisters at the same time.
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
