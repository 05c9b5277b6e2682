//! Explores threads that register and unregister, and a driver that merges and frees unused counters, against a reader
//! of the sum.
//!
//! Invariant: a reader counts each event once, and uses no freed memory.
//!
//! Explored only with `--cfg crossbeam_loom`, without which crossbeam-epoch does not use loom.

use loom::sync::Arc;
use loom::thread::{self, JoinHandle};

use super::explore;
use crate::source::shard::counter_registry::{ListedCounters, Registry};

/// Registers, and counts once.
fn register(registry: &Registry) -> Arc<ListedCounters> {
    let counters = registry.register();
    counters.counters.count();
    counters
}

/// Registers `count` times, and then unregisters all of them.
fn register_and_unregister(registry: &Registry, count: usize) {
    let all: Vec<_> = (0..count).map(|_| register(registry)).collect();
    all.iter().for_each(|counters| _ = registry.unregister(counters));
}

/// Starts a driver that makes `turns` turns: the first merges and unlinks, and later ones free.
fn spawn_trim(registry: &Arc<Registry>, turns: usize) -> JoinHandle<()> {
    let registry = registry.clone();
    thread::spawn(move || {
        for _ in 0..turns {
            registry.trim();
        }
    })
}

/// A reader counts each event once, whether the driver has merged it or not. The driver unlinks two neighbours.
#[test]
fn trim_against_a_reader() {
    explore(|| {
        let registry = Arc::new(Registry::new(1));
        register_and_unregister(&registry, 3);
        let driver = spawn_trim(&registry, 3);
        assert_eq!(registry.read().scheduled, 3);
        driver.join().unwrap();
        assert_eq!(registry.read().scheduled, 3);
    });
}

/// A thread registers while the driver unlinks counters behind those that were registered last.
#[test]
fn trim_against_register() {
    explore(|| {
        let registry = Arc::new(Registry::new(1));
        register_and_unregister(&registry, 2);
        let driver = spawn_trim(&registry, 1);
        let counters = register(&registry);
        driver.join().unwrap();
        assert_eq!(registry.read().scheduled, 3);
        registry.unregister(&counters);
        assert_eq!(registry.read().scheduled, 3);
    });
}

/// A thread counts for the last time, and unregisters, while the driver passes its counters.
#[test]
fn trim_against_unregister() {
    explore(|| {
        let registry = Arc::new(Registry::new(1));
        let counters = register(&registry);
        register_and_unregister(&registry, 2);
        let driver = spawn_trim(&registry, 2);
        counters.counters.count();
        registry.unregister(&counters);
        driver.join().unwrap();
        assert_eq!(registry.read().scheduled, 4);
    });
}

/// Two threads register at the same time, and one of them unregisters.
#[test]
fn threads_register_and_unregister() {
    explore(|| {
        let registry = Arc::new(Registry::new(1));
        let other = {
            let registry = registry.clone();
            thread::spawn(move || register_and_unregister(&registry, 2))
        };
        let (one, two) = (register(&registry), register(&registry));
        one.counters.count();
        two.counters.count();
        other.join().unwrap();
        assert_eq!(registry.read().scheduled, 2 + 4);
    });
}

/// A reader either sees or misses the count of a thread that registers and unregisters at the same time.
#[test]
fn register_and_unregister_against_a_reader() {
    explore(|| {
        let registry = Arc::new(Registry::new(1));
        let counting = {
            let registry = registry.clone();
            thread::spawn(move || register_and_unregister(&registry, 1))
        };
        assert!(registry.read().scheduled <= 1);
        counting.join().unwrap();
        assert_eq!(registry.read().scheduled, 1);
    });
}
