//! Unit tests of `thread_state`.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use super::*;
use crate::clock::{ManualClock, Ticks};
use crate::engine::memory::Slab;
use crate::engine::wakeup::DriverWakeup;
use crate::shard::ShardSettings;

fn shard() -> Arc<Shard> {
    let ticks = Ticks::new(Some(ManualClock::new()), Duration::from_millis(1));
    Shard::new(Slab::new().unwrap(), DriverWakeup::alone(), ticks, ShardSettings::default())
}

/// Looks for the state used last when the thread ends.
struct AtExit(Arc<Shard>);

impl Drop for AtExit {
    fn drop(&mut self) {
        assert!(take_last().is_none(), "this state has outlived the others");
        assert!(of(&self.0).ends);
        assert!(take_last().is_none(), "no destructor would drop this state");
    }
}

#[test]
fn a_destructor_after_that_of_the_states_finds_none_of_them() {
    thread_local! {
        static AT_EXIT: RefCell<Option<AtExit>> = const { RefCell::new(None) };
    }
    let shard = shard();
    let uses = move || {
        // Destructors run in the reverse order of first use.
        AT_EXIT.set(Some(AtExit(shard.clone())));
        assert!(!of(&shard).ends);
    };
    assert!(thread::spawn(uses).join().is_ok());
}

#[test]
fn a_state_is_found_by_its_shard_and_by_the_service_of_its_home() {
    let mut shards: Vec<(u64, Arc<Shard>, *const ListedCounters)> = Vec::new();
    for service in (1..50).map(|number| number << 32) {
        let shard = shard();
        let listed = Arc::as_ptr(&home(service, || &shard).listed);
        shards.push((service, shard, listed));
        for (service, shard, listed) in &shards {
            let found = |state: Guard| assert!(Arc::as_ptr(&state.listed) == *listed);
            found(of(shard));
            found(home(*service, || panic!("the home of {service} was chosen before")));
        }
    }
}

#[test]
fn a_call_inside_a_call_has_a_state_of_its_own_and_neither_is_lost() {
    let [outer, other] = [shard(), shard()];
    let homes = || [&outer, &other].map(|shard| shard.homes.load(Ordering::Relaxed));
    let uses = || {
        let home = |service, shard| home(service, || Shard::choose_home(std::slice::from_ref(shard), 0));
        let _states = [home(1, &outer), home(2, &other), home(1, &outer)];
        assert_eq!(homes(), [2, 1]);
    };
    // A join waits for the destructors of the thread's locals, too.
    assert!(thread::scope(|scope| scope.spawn(uses).join().is_ok()));
    assert_eq!(homes(), [0, 0]);
}

#[test]
fn a_thread_that_uses_another_shard_keeps_a_few_entries_unless_it_leaves_its_home() {
    let [home, other] = [shard(), shard()];
    let mut fresh = Cache::new();
    let mut recycle = |state: &mut ThreadState, shard: &Shard, count| {
        (0..count).for_each(|_| state.recycle(shard.core.free_entry(&mut fresh).unwrap(), false));
        fresh.drain(|_| ());
    };
    recycle(&mut super::home(1, || &home), &home, 2 * HANDFUL);
    recycle(&mut of(&other), &other, HANDFUL - 1);
    drop(of(&home));
    assert_eq!((home.core.depot.len(), other.core.depot.len()), (0, 0));
    recycle(&mut of(&other), &other, 1);
    drop(of(&home));
    assert_eq!((home.core.depot.len(), other.core.depot.len()), (0, HANDFUL));
}
