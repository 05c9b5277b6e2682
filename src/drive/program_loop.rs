//! The program's own loop drives a shard: see [`Driver`](crate::Driver).

use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use super::expired::ExpiredTimers;
use super::shard_set::{ShardSet, first_role};
use crate::engine::alarm::{not_before, sleep_until};
use crate::engine::gate::Gate;
use crate::engine::role::{Driven, TurnOutcome, with_driver};
use crate::engine::wakeup::PROGRAM;
use crate::shard::driver::ExpiredEntries;
use crate::shard::{Shard, thread_state};

/// Time after which the loop looks again for a driver that another thread has for a turn.
const RETRY_AFTER: Duration = Duration::from_micros(200);

/// The role of a shard, while the program has it.
pub(crate) struct ProgramLoop {
    shard_set: Arc<ShardSet>,
    /// The id of the service.
    service: u64,
    /// Index of the shard.
    index: usize,
    gate: Gate,
    /// How often in a row the waker was called, and nothing was due.
    early: u32,
}

impl ProgramLoop {
    /// Takes the role of the calling thread's home. `None` if the program has it already.
    pub(crate) fn take(shard_set: &Arc<ShardSet>, service: u64, index: usize) -> Option<Self> {
        let wakeup = &shard_set.shards[index].wakeup();
        loop {
            let role = wakeup.role();
            if role == PROGRAM {
                return None;
            }
            if wakeup.change_role(role, PROGRAM) {
                wakeup.program.attach();
                return Some(Self { shard_set: shard_set.clone(), service, index, gate: shard_set.gate(), early: 0 });
            }
        }
    }

    pub(crate) fn shard(&self) -> &Arc<Shard> {
        &self.shard_set.shards[self.index]
    }

    /// Makes the calling thread the one that has the loop.
    pub(crate) fn attach(&self) {
        let shard = self.shard();
        shard.wakeup().program.attach();
        thread_state::move_home(self.service, shard);
    }

    /// Returns whether the service is shut down.
    pub(crate) fn is_closed(&self) -> bool {
        self.shard().core.is_closing() || self.shard().is_inherited()
    }

    pub(crate) fn set_waker(&self, waker: &Waker) {
        let task = LoopWaker { waker: Some(waker.clone()), shard: Arc::downgrade(self.shard()) };
        let waker = &Waker::from(Arc::new(task));
        if !self.is_closed() {
            self.shard().wakeup().program.set(waker);
        }
        if self.is_closed() {
            waker.wake_by_ref();
        }
    }

    /// Expires what is due now. Returns how many timers that were.
    pub(crate) fn drive(&mut self) -> usize {
        if self.is_closed() {
            return 0;
        }
        let shard = self.shard().clone();
        let now = shard.ticks.now_tick();
        // What was due when it was set passes the gate, and opens it for nothing else.
        let opens = shard.wakeup().wake_tick() <= now && !shard.wakeup().is_due_when_set();
        shard.wakeup().program.set_awake();
        let mut expired = 0;
        let mut is_fresh = false;
        let mut is_due = true;
        loop {
            let mut is_over = false;
            let turn = with_driver(&*shard, PROGRAM, |driver| {
                is_fresh |= !driver.in_round;
                let turn = shard.turn(driver, is_due);
                is_over = is_fresh && !driver.in_round;
                turn
            });
            match turn {
                Some(TurnOutcome::Expired { expired: turned, .. }) => expired += self.hand_out(turned),
                Some(TurnOutcome::More | TurnOutcome::Asleep { .. }) => {}
                Some(TurnOutcome::Closed) | None => break,
            }
            if !is_due {
                break;
            }
            // Once nothing is due, a turn of non-urgent work.
            is_due = !is_over;
        }
        if opens {
            self.gate.pass(self.gate.due_tick(now), expired > 0);
        }
        if expired > 0 {
            self.early = 0;
        }
        expired
    }

    /// Hands out what has expired in one turn. Returns how many timers that were.
    fn hand_out(&mut self, turned: ExpiredEntries) -> usize {
        let mut expired = ExpiredTimers::default();
        expired.add(self.shard(), turned);
        if self.shard_set.dispatcher.queue().is_some() {
            self.shard_set.dispatch(&mut expired.callbacks);
        }
        // No other role takes the shard while the loop is here.
        expired.handed_out(PROGRAM, |wake| wake());
        expired.run_wakers();
        self.shard_set.dispatch(&mut expired.callbacks);
        expired.len
    }

    /// Returns when to drive at the latest. `None`: nothing to do until woken.
    pub(crate) fn next_wakeup(&mut self) -> Option<Instant> {
        if self.is_closed() {
            return None;
        }
        let shard = self.shard().clone();
        let program = &shard.wakeup().program;
        let present = shard.ticks.now_tick();
        let floor = self.gate.opens_at();
        self.early = if program.rearm(floor) { self.early + 1 } else { 0 };
        let now = Instant::now();
        let mut tick = None;
        let turn = with_driver(&*shard, PROGRAM, |driver| {
            let turn = shard.guarded(driver, |driver| driver.take_in(&shard.core, self.gate.due_tick(present)));
            tick = Some(not_before(shard.wakeup().wake_tick(), floor));
            turn
        });
        match turn {
            // The thread that hands out what has expired then calls the waker.
            None if shard.driver_cell().is_handing_out() && program.is_set() => None,
            None => Some(now + RETRY_AFTER),
            Some(TurnOutcome::Closed) => None,
            Some(TurnOutcome::Asleep { has_work: false }) => {
                let asks_by = sleep_until(self.early, || present, tick?, floor);
                program.ask_by(asks_by);
                shard.ticks.instant(asks_by)
            }
            // Memory to be given back may have come during the turn, when no thread wakes the loop for it. Or a timer was
            // due when it was set.
            Some(_) => Some(now),
        }
    }
}

/// The waker of the program's loop. Threads that arm timers call and drop it, and so do the service's own, so no panic
/// leaves it.
struct LoopWaker {
    /// `Some` until the drop.
    waker: Option<Waker>,
    shard: Weak<Shard>,
}

impl LoopWaker {
    fn catch_panic(&self, f: impl FnOnce()) {
        if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(f)) {
            Shard::report_panic_if_alive(Some(&self.shard), true, payload);
        }
    }
}

impl Wake for LoopWaker {
    fn wake(self: Arc<Self>) {
        if let Some(waker) = &self.waker {
            self.catch_panic(|| waker.wake_by_ref());
        }
    }
}

impl Drop for LoopWaker {
    fn drop(&mut self) {
        let waker = self.waker.take();
        self.catch_panic(|| drop(waker));
    }
}

impl Drop for ProgramLoop {
    fn drop(&mut self) {
        // In a forked child: the waker and the executor are the parent's, and a thread of it may have the lock for
        // ever.
        if self.shard().is_inherited() {
            return mem::forget(self.shard_set.clone());
        }
        let wakeup = self.shard().wakeup();
        wakeup.program.set_awake();
        wakeup.program.remove();
        wakeup.change_role(PROGRAM, first_role(self.index, self.shard_set.is_flexible));
        // The loop may have left memory to be given back.
        self.shard().core.wake_lazily();
    }
}
