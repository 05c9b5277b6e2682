//! The own thread of a shard.
//!
//! The thread drives all shards of its [role]. It makes a turn of one shard after the other, hands out what has expired,
//! and sleeps when nothing is due. The [leader](super::shard_set) also checks the pool.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use core_affinity::CoreId;

use super::expired::ExpiredTimers;
use super::load::Load;
use super::own_thread_handle::ExecuteSignal;
use super::shard_set::ShardSet;
use crate::engine::alarm::LEADER;
use crate::engine::gate::Gate;
use crate::engine::role::{self, Driven, TurnOutcome};
use crate::executor::{Dispatcher, JobQueue};
use crate::shard::thread_state;
use crate::system::Scheduling;

/// Number of turns of non-urgent work, of some 50 µs each, after which a thread yields its core.
///
/// Threads that cancel 10^7 timers on all cores meanwhile take a third less time. There a yield may cost milliseconds,
/// so a thread does not yield after every turn.
const YIELD_EVERY: u32 = 8;

/// How much later than its time a check of the pool may come, so that a wake-up for a deadline serves it, too.
const CHECK_WITHIN: Duration = Duration::from_millis(2);

/// The own thread of one shard.
pub(super) struct OwnThread {
    shard_set: Arc<ShardSet>,
    number: u32,
    scheduling: Scheduling,
    signal: ExecuteSignal,
    /// Index of the shard that was driven last.
    last: usize,
    /// Number of turns since the last yield after which only non-urgent work was left.
    idle_turns: u32,
    load: Load,
    gate: Gate,
    /// Number of the last sleeps that callers have ended before their time.
    early: u32,
}

/// Drives shards until they are closed. Must be called on the own thread of this number, which is pinned to `core`.
pub(crate) fn drive(shard_set: Arc<ShardSet>, number: u32, core: Option<CoreId>, signal: ExecuteSignal) {
    shard_set.alarms.get(number).parker.attach();
    let mut thread = OwnThread::new(shard_set, number, core, signal);
    thread.run();
    // The drop of a custom executor may call foreign code.
    thread.scheduling.run_foreign(|| drop(thread.shard_set));
}

impl OwnThread {
    pub(super) fn new(shard_set: Arc<ShardSet>, number: u32, core: Option<CoreId>, signal: ExecuteSignal) -> Self {
        let scheduling = Scheduling::new(core);
        let gate = shard_set.gate();
        Self { shard_set, number, scheduling, signal, last: 0, idle_turns: 0, load: Load::new(), gate, early: 0 }
    }

    fn run(&mut self) {
        loop {
            let is_over = self.shard_set.are_closed();
            match self.drive_until_expired() {
                Some(expired) => {
                    self.hand_out(expired);
                    // Here, too, because a thread that is always busy never sleeps.
                    self.check_pool();
                }
                None if is_over => break,
                None => {
                    self.check_pool();
                    self.sleep();
                }
            }
        }
        // The driver of a shard that was closed after its last turn lies in its cell: this drops it.
        for shard in self.shard_set.shards_of(self.number) {
            role::with_driver(&**shard, self.number, |driver| shard.turn(driver, true));
        }
    }

    /// Makes turns of the role's shards until something is to be handed out, or as many turns as there are shards have
    /// expired nothing: a backlog delays neither what has expired nor the thread's other duties. `None`: nothing is
    /// due.
    pub(super) fn drive_until_expired(&mut self) -> Option<ExpiredTimers> {
        let mut expired = ExpiredTimers::default();
        if self.number == LEADER && self.load.is_behind() {
            self.shard_set.unfold();
        }
        let shards = self.shard_set.shards_of(self.number);
        let mut turns = shards.len();
        while turns > 0 && !expired.is_full() {
            match role::drive_due(shards, self.number, &mut self.gate, &mut self.last, expired.is_empty()) {
                Some(TurnOutcome::Expired { expired: turned, .. }) => expired.add(&shards[self.last], turned),
                Some(turn) => {
                    turns -= 1;
                    if expired.is_empty() && matches!(turn, TurnOutcome::Asleep { has_work: true }) {
                        self.idle_turns = (self.idle_turns + 1) % YIELD_EVERY;
                        if self.idle_turns == 0 {
                            thread::yield_now();
                        }
                    }
                }
                None if expired.is_empty() => return None,
                None => break,
            }
        }
        Some(expired)
    }

    /// Hands out what has expired.
    fn hand_out(&mut self, mut expired: ExpiredTimers) {
        let shard_set = &*self.shard_set;
        if shard_set.dispatcher.queue().is_some() {
            shard_set.dispatch(&mut expired.callbacks);
        }
        // Callbacks that start here start in order. A manual clock waits for the wakers, too.
        if expired.callbacks.is_empty() && shard_set.shards[0].ticks.manual.is_none() {
            expired.handed_out(self.number, |wake| self.scheduling.run_foreign(wake));
        }
        if expired.has_wakers() {
            self.scheduling.run_foreign(|| expired.run_wakers());
        }
        if !expired.callbacks.is_empty() {
            let mut dispatch = || shard_set.dispatch(&mut expired.callbacks);
            let may_block = matches!(shard_set.dispatcher, Dispatcher::Custom(_));
            self.scheduling.run_foreign(|| if may_block { self.signal.execute(dispatch) } else { dispatch() });
        }
        expired.handed_out(self.number, |wake| self.scheduling.run_foreign(wake));
    }

    /// Checks the pool, as the leader.
    fn check_pool(&mut self) {
        if self.number == LEADER {
            self.shard_set.dispatcher.check(|start| self.scheduling.run_foreign(start));
        }
    }

    /// Sleeps until a shard of the role is due, or until the queue needs a check by the leader.
    fn sleep(&mut self) {
        let begun = Instant::now();
        self.scheduling.apply();
        let shard_set = &*self.shard_set;
        let shard = &shard_set.shards[self.number as usize];
        let shards = shard_set.shards_of(self.number);
        let earliest = || if shard_set.are_closed() { 0 } else { role::earliest(shards, self.number) };
        // Reads the time of the next check when other threads can already wake this one.
        let queue = shard_set.dispatcher.queue().filter(|_| self.number == LEADER);
        let timeout = |tick| {
            let until = shard.ticks.until(tick);
            let check = queue.and_then(JobQueue::next_check).map(|at| at.saturating_duration_since(Instant::now()));
            let check = check.filter(|&left| until.is_none_or(|until| until > left + CHECK_WITHIN));
            until.into_iter().chain(check).min()
        };
        let (alarm, now) = (shard_set.alarms.get(self.number), || shard.ticks.now_tick());
        let has_slept = alarm.sleep(self.gate.opens_at(), &mut self.early, now, earliest, timeout);
        thread_state::of(shard).add(|counters| &counters.wakeups, has_slept.into());
        if let Some(share) = self.load.record_sleep(begun) {
            shard_set.balance(self.number, share);
        }
    }
}
