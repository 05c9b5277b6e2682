//! The own thread of a shard.
//!
//! The thread drives all shards of its [role](crate::engine::seat). It makes a turn of one shard after the other, hands out
//! what has expired, and sleeps when nothing is due. The [leader](super::shard_set) also checks the pool.
//!
//! A shutdown waits until the thread has ended, or until it is inside the `execute` of a custom executor. There the
//! thread may itself wait for the thread that shuts down: an executor with a bounded queue waits for its consumer. It
//! ends by itself when `execute` returns.

use std::io;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use core_affinity::CoreId;

use super::busyness::Busyness;
use super::hand_out::{Foreign, HandOut};
use super::shard_set::ShardSet;
use crate::engine::alarm::{AWAKE, LEADER, Sleeps};
use crate::engine::gate::Gate;
use crate::engine::seat;
use crate::executor::{self, Dispatcher, JobQueue};
use crate::shard::thread_state;
use crate::sync::lock;
use crate::system::Scheduling;

/// Number of turns of chores, of some 50 µs each, after which a thread yields its core.
///
/// Threads that cancel 10^7 timers on all cores meanwhile take a third less time. There a yield may cost milliseconds,
/// so a thread does not yield after every turn.
const YIELD_EVERY: u32 = 8;

/// How much later than its time a check of the pool may come, so that a wake-up for a deadline serves it, too.
const CHECK_WITHIN: Duration = Duration::from_millis(2);

/// The own thread of one shard.
pub(super) struct OwnThread {
    number: u32,
    scheduling: Scheduling,
    signal: ExecuteSignal,
    /// Index of the shard that was driven last.
    last: usize,
    /// Number of turns since the last yield after which only chores were left.
    idle_turns: u32,
    busyness: Busyness,
    gate: Gate,
    sleeps: Sleeps,
}

/// Drives shards until they are closed. Must be called on the own thread of this number, which is pinned to `core`.
pub(crate) fn drive(shard_set: Arc<ShardSet>, number: u32, core: Option<CoreId>, signal: ExecuteSignal) {
    shard_set.alarms.get(number).bell.attach();
    let mut thread = OwnThread::new(&shard_set, number, core, signal);
    thread.run(&shard_set);
    // The drop of a custom executor may call foreign code.
    thread.scheduling.run_foreign(|| drop(shard_set));
}

impl OwnThread {
    pub(super) fn new(shard_set: &ShardSet, number: u32, core: Option<CoreId>, signal: ExecuteSignal) -> Self {
        Self {
            number,
            scheduling: Scheduling::new(core),
            signal,
            last: 0,
            idle_turns: 0,
            busyness: Busyness::new(),
            gate: shard_set.gate.clone(),
            sleeps: Sleeps::default(),
        }
    }

    fn run(&mut self, shard_set: &ShardSet) {
        loop {
            let is_over = shard_set.are_closed();
            let expired = self.make_turns(shard_set);
            let is_idle = expired.is_empty();
            if is_idle && is_over {
                break;
            }
            self.hand_out(shard_set, expired);
            // A thread that is always busy never sleeps, so it checks here.
            if self.number == LEADER {
                shard_set.dispatcher.check(|start| self.scheduling.run_foreign(start));
            }
            if is_idle {
                self.sleep(shard_set);
            }
        }
        // The driver of a shard that was closed after its last turn lies in its seat: this drops it.
        shard_set.shards_of(self.number).iter().for_each(|shard| drop(shard.core.wakeup.take_seat(self.number)));
    }

    /// Makes a turn of each shard of the role that is due, until enough has expired. If nothing has, makes one of each shard
    /// that has chores.
    pub(super) fn make_turns<'a>(&mut self, shard_set: &'a ShardSet) -> HandOut<'a> {
        if self.number == LEADER && self.busyness.is_behind() {
            shard_set.unfold();
        }
        let shards = shard_set.shards_of(self.number);
        let mut expired = HandOut::default();
        while !expired.is_full() {
            let due = self.gate.due_tick(shards[0].ticks.now_tick());
            let does_chores = expired.len == 0;
            let Some((seated, is_due)) = seat::take_next(shards, self.number, due, &mut self.last, does_chores) else {
                break;
            };
            let (shard, needed_at) = (&shards[self.last], seated.needed_at);
            let Some(seated) = shard.turn(seated, is_due) else { continue };
            if is_due && needed_at != AWAKE {
                self.gate.pass(due, !seated.driver.expired.is_empty());
            }
            let has_chores = seated.driver.has_chores;
            expired.add(shard, seated);
            if has_chores && expired.len == 0 {
                self.idle_turns = (self.idle_turns + 1) % YIELD_EVERY;
                if self.idle_turns == 0 {
                    thread::yield_now();
                }
            }
        }
        expired
    }

    pub(super) fn hand_out(&mut self, shard_set: &ShardSet, expired: HandOut<'_>) {
        let may_block = matches!(shard_set.dispatcher, Dispatcher::Custom(_));
        expired.run(shard_set, |foreign, f| {
            let executes = may_block && matches!(foreign, Foreign::Callbacks);
            self.scheduling.run_foreign(|| if executes { self.signal.execute(f) } else { f() });
        });
    }

    /// Sleeps until a shard of the role is due, or until the queue needs a check by the leader.
    fn sleep(&mut self, shard_set: &ShardSet) {
        let begun = Instant::now();
        self.scheduling.pin();
        let shard = &shard_set.shards[self.number as usize];
        let (shards, now) = (shard_set.shards_of(self.number), || shard.ticks.now_tick());
        let earliest = || if shard_set.are_closed() { AWAKE } else { seat::earliest(shards, self.number, now()) };
        let alarm = shard_set.alarms.get(self.number);
        if let Some(tick) = alarm.fall_asleep(&mut self.sleeps, self.gate.opens_at(), now, earliest) {
            let until = shard.ticks.until(tick);
            // Read when other threads can already wake this one.
            let queue = shard_set.dispatcher.queue().filter(|_| self.number == LEADER);
            let check = queue.and_then(JobQueue::next_check).map(|at| at.saturating_duration_since(Instant::now()));
            let check = check.filter(|&left| until.is_none_or(|until| until > left + CHECK_WITHIN));
            let timeout = until.into_iter().chain(check).min();
            if timeout != Some(Duration::ZERO) {
                alarm.bell.park(timeout);
                thread_state::of(shard).count(|counters| &counters.wakeups);
            }
            alarm.wake_up(&mut self.sleeps, now);
        }
        if let Some(share) = self.busyness.record_sleep(begun) {
            shard_set.balance(self.number, share);
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
        let signal = ExecuteSignal::new();
        let executes = signal.executes.clone();
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
    pub(super) fn new() -> Self {
        let (sender, receiver) = mpsc::sync_channel(1);
        Self { sender, executes: Arc::new(Mutex::new(receiver)) }
    }

    /// Runs `f`, which calls `execute` and may block.
    pub(super) fn execute<R>(&self, f: impl FnOnce() -> R) -> R {
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
