//! The own thread of a shard: its loop, and how a shutdown waits for it.
//!
//! The thread drives all shards of its [role](crate::engine::role). It makes a turn of one shard after the other, hands out
//! what has expired, and sleeps when nothing is due.
//!
//! A shutdown waits until the thread has ended, or until it is inside the `execute` of a custom executor. There the
//! thread may itself wait for the thread that shuts down: an executor with a bounded queue waits for its consumer. It
//! ends by itself when `execute` returns.

use std::io;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

use core_affinity::CoreId;

use super::expired::ExpiredTimers;
use super::shard_set::{OwnThreadState, ShardSet};
use crate::engine::alarm::LEADER;
use crate::engine::role::{Driven, with_driver};
use crate::executor::{self, Dispatcher};
use crate::sync::lock;
use crate::system::Scheduling;

/// The own thread of one shard.
struct OwnThread<'a> {
    shard_set: Arc<ShardSet>,
    state: OwnThreadState,
    scheduling: Scheduling,
    driving: Driving<'a>,
}

/// Drives shards until they are closed. Must be called on the own thread of this number, which is pinned to `core`.
pub(crate) fn drive(shard_set: Arc<ShardSet>, number: u32, core: Option<CoreId>, driving: Driving<'_>) {
    shard_set.alarms.get(number).attach();
    let state = OwnThreadState::new(number);
    let mut thread = OwnThread { shard_set, state, scheduling: Scheduling::new(core), driving };
    thread.run();
    // The drop of a custom executor may call foreign code.
    thread.scheduling.restore();
}

impl OwnThread<'_> {
    fn run(&mut self) {
        let shard_set = self.shard_set.clone();
        loop {
            let is_over = shard_set.are_closed();
            match shard_set.drive_until_expired(&mut self.state) {
                Some(expired) => {
                    self.deliver(expired);
                    // Here, too, because a thread that is always busy never sleeps.
                    self.check_pool();
                }
                None if is_over => break,
                None => {
                    self.check_pool();
                    shard_set.sleep(&mut self.state, &mut self.scheduling);
                }
            }
        }
        // A shard that was closed between two looks.
        let number = self.state.number;
        for shard in shard_set.shards_of(number) {
            with_driver(&**shard, number, |driver| shard.turn(driver, true));
        }
    }

    /// Hands out what has expired.
    fn deliver(&mut self, ExpiredTimers { mut shards, callbacks, wakers, .. }: ExpiredTimers) {
        let shard_set = &*self.shard_set;
        let number = self.state.number;
        let callbacks = shard_set.dispatch_to_pool(callbacks);
        // Callbacks that start here start in order. A manual clock waits for the wakers, too.
        if callbacks.is_none() && shard_set.shards[0].ticks.manual.is_none() {
            ExpiredTimers::handed_out(mem::take(&mut shards), number, || self.scheduling.restore());
        }
        if !wakers.is_empty() {
            self.scheduling.restore();
            wakers.run();
        }
        if let Some(callbacks) = callbacks {
            self.scheduling.restore();
            let dispatch = || shard_set.dispatch(callbacks);
            let may_block = matches!(shard_set.dispatcher, Dispatcher::Custom(_));
            if may_block { self.driving.execute(dispatch) } else { dispatch() }
        }
        ExpiredTimers::handed_out(shards, number, || self.scheduling.restore());
    }

    /// Looks after the pool, as the leader.
    fn check_pool(&mut self) {
        if self.state.number == LEADER {
            self.shard_set.dispatcher.check(|| self.scheduling.restore());
        }
    }
}

/// A join handle for a driver's thread.
pub(crate) struct OwnThreadHandle {
    thread: JoinHandle<()>,
    /// See [`Driving`].
    is_driving: Arc<Mutex<bool>>,
}

impl OwnThreadHandle {
    /// Starts a thread that runs `drive`.
    pub(crate) fn start(name: String, drive: impl FnOnce(Driving<'_>) + Send + 'static) -> io::Result<Self> {
        let is_driving = Arc::new(Mutex::new(true));
        let its = is_driving.clone();
        let thread = executor::spawn(name, move || drive(Driving { held: Some(lock(&its)), lock: &its }))?;
        Ok(Self { thread, is_driving })
    }

    /// Waits until the thread has ended or is inside `execute`. The shard must be closing already.
    pub(crate) fn join(self) {
        // A thread that has not begun, or has panicked, is waited for, too.
        let is_driving = *lock(&self.is_driving);
        if is_driving {
            executor::join(self.thread);
        }
    }
}

/// Held by the driver's thread, and not inside `execute`. The value behind the lock is false there.
pub(crate) struct Driving<'a> {
    lock: &'a Mutex<bool>,
    held: Option<MutexGuard<'a, bool>>,
}

impl Driving<'_> {
    /// Runs `f`, which calls `execute` and may block.
    fn execute<R>(&mut self, f: impl FnOnce() -> R) -> R {
        if let Some(mut is_driving) = self.held.take() {
            *is_driving = false;
        }
        let result = f();
        **self.held.insert(lock(self.lock)) = true;
        result
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(20);

    /// Takes a while to drop, and then records that it has.
    struct Lingers(Arc<AtomicBool>);

    impl Drop for Lingers {
        fn drop(&mut self) {
            thread::sleep(Duration::from_millis(50));
            self.0.store(true, Ordering::SeqCst);
        }
    }

    thread_local! {
        static LINGERS: Cell<Option<Lingers>> = const { Cell::new(None) };
    }

    #[test]
    fn a_thread_is_waited_for_unless_it_executes() {
        for executes in [true, false] {
            let (come, came) = mpsc::channel();
            let (leave, left) = mpsc::channel::<()>();
            let has_ended = Arc::new(AtomicBool::new(false));
            let lingers = Lingers(has_ended.clone());
            let driver = OwnThreadHandle::start("executes".to_owned(), move |mut driving| {
                LINGERS.set(Some(lingers));
                driving.execute(|| ());
                let wait = || {
                    come.send(()).unwrap();
                    let _ = left.recv();
                };
                if executes { driving.execute(wait) } else { wait() }
            });
            let driver = driver.unwrap();
            came.recv_timeout(TIMEOUT).unwrap();
            let (join, joined) = mpsc::channel();
            let ended = has_ended.clone();
            let joiner = thread::spawn(move || {
                driver.join();
                join.send(ended.load(Ordering::SeqCst)).unwrap();
            });
            if executes {
                joined.recv_timeout(TIMEOUT).expect("a thread that executes is not waited for");
            } else {
                let early = joined.recv_timeout(Duration::from_millis(50));
                assert!(early.is_err(), "a thread that has executed is waited for");
            }
            drop(leave);
            joiner.join().unwrap();
            assert!(executes || joined.recv().unwrap(), "the thread has ended, and not only its loop");
        }
    }
}
