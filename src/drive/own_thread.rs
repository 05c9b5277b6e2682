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
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex};
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
struct OwnThread {
    shard_set: Arc<ShardSet>,
    state: OwnThreadState,
    scheduling: Scheduling,
    signal: ExecuteSignal,
}

/// Drives shards until they are closed. Must be called on the own thread of this number, which is pinned to `core`.
pub(crate) fn drive(shard_set: Arc<ShardSet>, number: u32, core: Option<CoreId>, signal: ExecuteSignal) {
    shard_set.alarms.get(number).parker.attach();
    let state = OwnThreadState::new(number);
    let mut thread = OwnThread { shard_set, state, scheduling: Scheduling::new(core), signal };
    thread.run();
    // The drop of a custom executor may call foreign code.
    thread.scheduling.run_foreign(|| drop(thread.shard_set));
}

impl OwnThread {
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
        // The driver of a shard that was closed after its last turn lies in its cell: this drops it.
        for shard in shard_set.shards_of(self.state.number) {
            with_driver(&**shard, self.state.number, |driver| shard.turn(driver, true));
        }
    }

    /// Hands out what has expired.
    fn deliver(&mut self, ExpiredTimers { mut shards, callbacks, wakers, .. }: ExpiredTimers) {
        let shard_set = &*self.shard_set;
        let number = self.state.number;
        let callbacks = shard_set.dispatch_to_pool(callbacks);
        // Callbacks that start here start in order. A manual clock waits for the wakers, too.
        if callbacks.is_empty() && shard_set.shards[0].ticks.manual.is_none() {
            ExpiredTimers::handed_out(mem::take(&mut shards), number, |wake| self.scheduling.run_foreign(wake));
        }
        if !wakers.is_empty() {
            self.scheduling.run_foreign(|| wakers.run());
        }
        if !callbacks.is_empty() {
            let dispatch = || shard_set.dispatch(callbacks);
            let may_block = matches!(shard_set.dispatcher, Dispatcher::Custom(_));
            self.scheduling.run_foreign(|| if may_block { self.signal.execute(dispatch) } else { dispatch() });
        }
        ExpiredTimers::handed_out(shards, number, |wake| self.scheduling.run_foreign(wake));
    }

    /// Checks the pool, as the leader.
    fn check_pool(&mut self) {
        if self.state.number == LEADER {
            self.shard_set.dispatcher.check(|start| self.scheduling.run_foreign(start));
        }
    }
}

/// A join handle for an own thread.
pub(crate) struct OwnThreadHandle {
    thread: JoinHandle<()>,
    /// Has a message while the thread is inside `execute`, and is disconnected when the thread ends.
    executes: Arc<Mutex<Receiver<()>>>,
}

impl OwnThreadHandle {
    /// Starts a thread that runs `drive`.
    pub(crate) fn start(name: String, drive: impl FnOnce(ExecuteSignal) + Send + 'static) -> io::Result<Self> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let executes = Arc::new(Mutex::new(receiver));
        let signal = ExecuteSignal { sender, executes: executes.clone() };
        let thread = executor::spawn(name, move || drive(signal))?;
        Ok(Self { thread, executes })
    }

    /// Waits until the thread has ended or is inside `execute`. The shard must be closing already.
    pub(crate) fn join(self) {
        // An error: the thread ends, perhaps by a panic. It takes this lock only after it has sent a message.
        if lock(&self.executes).recv().is_err() {
            executor::join(self.thread);
        }
    }
}

/// Tells the handle of an own thread when that is inside `execute`, and by its drop that it ends.
pub(crate) struct ExecuteSignal {
    sender: SyncSender<()>,
    executes: Arc<Mutex<Receiver<()>>>,
}

impl ExecuteSignal {
    /// Runs `f`, which calls `execute` and may block.
    fn execute<R>(&self, f: impl FnOnce() -> R) -> R {
        _ = self.sender.try_send(());
        let result = f();
        // Unless `join` has received it.
        _ = lock(&self.executes).try_recv();
        result
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicBool, Ordering};
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
            let driver = OwnThreadHandle::start("executes".to_owned(), move |signal| {
                LINGERS.set(Some(lingers));
                signal.execute(|| ());
                let wait = || {
                    come.send(()).unwrap();
                    let _ = left.recv();
                };
                if executes { signal.execute(wait) } else { wait() }
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
