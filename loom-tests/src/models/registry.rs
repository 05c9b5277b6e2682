//! Explores threads that register and unregister, of which one merges and frees unused counters, against a reader of the
//! sum.
//!
//! Invariant: a reader counts each event once, and uses no freed memory.
//!
//! Explored only with `--cfg crossbeam_loom`, without which crossbeam-epoch does not use loom.
//!
//! Promise: counts are exact.

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

/// Unregisters these. Once more have ended than are left, this merges, unlinks and frees all that have ended but the first
/// of the list.
fn unregister(registry: &Registry, all: &[Arc<ListedCounters>]) {
    all.iter().for_each(|counters| registry.unregister(counters));
}

fn register_and_unregister(registry: &Registry, count: usize) {
    let all: Vec<_> = (0..count).map(|_| register(registry)).collect();
    unregister(registry, &all);
}

/// Starts a thread that unregisters `count` counters, which are registered before.
fn spawn_ending(registry: &Arc<Registry>, count: usize) -> JoinHandle<()> {
    let registry = registry.clone();
    let all: Vec<_> = (0..count).map(|_| register(&registry)).collect();
    thread::spawn(move || unregister(&registry, &all))
}

/// A reader counts each event once, whether it is merged or not. Two neighbours are unlinked.
#[test]
fn trim_against_a_reader() {
    explore(|| {
        let registry = Arc::new(Registry::new(1));
        let ending = spawn_ending(&registry, 3);
        assert_eq!(registry.read().scheduled, 3);
        ending.join().unwrap();
        assert_eq!(registry.read().scheduled, 3);
    });
}

/// A thread registers while counters behind those that were registered last are unlinked.
#[test]
fn trim_against_register() {
    explore(|| {
        let registry = Arc::new(Registry::new(1));
        let ending = spawn_ending(&registry, 3);
        let counters = register(&registry);
        ending.join().unwrap();
        assert_eq!(registry.read().scheduled, 4);
        registry.unregister(&counters);
        assert_eq!(registry.read().scheduled, 4);
    });
}

/// A thread counts for the last time, and unregisters, while another trims: either may find the other's.
#[test]
fn trim_against_unregister() {
    explore(|| {
        let registry = Arc::new(Registry::new(1));
        let counters = register(&registry);
        let ending = spawn_ending(&registry, 2);
        counters.counters.count();
        registry.unregister(&counters);
        ending.join().unwrap();
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
