//! Unit tests of `drivers` and `deputy`, on a thread that plays the timer's own ones.

use std::any::Any;
use std::thread;

use super::*;
use crate::clock::Ticks;
use crate::executor::JobQueue;
use crate::shard::ShardSettings;
use crate::shard::driver::Deferred;
use crate::wheel::Levels;

/// Shards that fold, and a pool without workers.
fn drivers(shards: usize) -> Arc<Drivers> {
    let dispatcher = Dispatcher::Own { queue: Arc::new(JobQueue::new(1, 0)), extras: None };
    let new = |_, wakeup| {
        let levels = Levels::new_ahead(0, &[64]).expect("a valid level");
        Shard::new(ShardSettings::new(levels, wakeup, Ticks::new(None, Duration::from_millis(1))))
    };
    Arc::new(Drivers::new(shards, dispatcher, true, new))
}

#[test]
fn a_leader_that_is_behind_gets_no_other_shard() {
    for is_behind in [false, true] {
        let drivers = drivers(2);
        let (mut leader, shard) = (drivers.new_role(0), &drivers.shards[1]);
        shard.core.wakeup.change_role(LEADER, 1);
        let begun = Instant::now() + WINDOW;
        if is_behind {
            thread::sleep(WINDOW);
            drivers.next(&mut leader);
        }
        drivers.balance(1, 0);
        let is_folded = shard.core.wakeup.role() == LEADER;
        assert!(is_folded != is_behind || begun.elapsed() > WINDOW, "{is_folded}");
    }
}

/// Notes, when a thread calls the waker, whether that is the deputy.
struct Notes {
    drivers: Arc<Drivers>,
    noted: Arc<Mutex<Option<bool>>>,
}

impl Drop for Notes {
    fn drop(&mut self) {
        *lock(&self.noted) = Some(self.drivers.alarms.must_look(1, None));
    }
}

impl Deferred for Notes {
    fn publish(&mut self) {}

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

#[test]
fn a_thread_that_calls_a_waker_is_not_the_deputy() {
    let (drivers, noted) = (drivers(3), Arc::default());
    drivers.alarms.enter();
    assert!(drivers.alarms.must_look(1, None), "the first other thread is the deputy");
    let notes = Notes { drivers: drivers.clone(), noted: Arc::clone(&noted) };
    drivers.call_wakers(&mut drivers.new_role(1), Arc::new(Wakers::of(notes)));
    assert_eq!(*lock(&noted), Some(false));
}
