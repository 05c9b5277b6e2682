//! The thread that drives a shard: it looks at what has come in, hands over what is due, and sleeps until the next
//! deadline. With nothing due it sleeps for good.
//!
//! A panic of the driver would be a defect of the crate, as it catches those of all foreign code. Its wheel may be broken
//! then, so no timer can be kept there any more: the driver closes its shard, says so, and ends. Other shards go on.

use std::any::Any;
use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use core_affinity::CoreId;

use super::Shard;
use super::batch::Batch;
use super::driver_thread::Whereabouts;
use super::local;
use super::rounds::Rounds;
use super::stragglers::Stragglers;
use crate::clock::{NEVER, Quiescence};
use crate::executor::Dispatcher;
use crate::system::Scheduling;
use crate::wheel::Levels;

/// After how many turns of giving memory back, some 50 µs each, whoever else runs on this core goes first. As that may take
/// him milliseconds each time, it is not after every turn: beside four busy threads on two cores it took four times as long.
const TURNS: u32 = 8;

/// Drives the shard until it is closed. To be called on a thread of its own.
pub(crate) fn drive(
    shard: Arc<Shard>,
    levels: Levels,
    dispatcher: Dispatcher,
    core: Option<CoreId>,
    whereabouts: &Whereabouts,
) {
    shard.core.bell.attach();
    let mut scheduling = Scheduling::new(core);
    scheduling.apply();
    let (rounds, stragglers) = (Rounds::new(levels), Stragglers::default());
    let mut driver = Driver { shard, dispatcher, rounds, stragglers, scheduling, whereabouts, due: Vec::new() };
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| driver.run()));
    // The executor, which may be dropped here, is foreign code, and so are wakers and the hook for panics.
    driver.scheduling.restore();
    if let Err(payload) = outcome {
        driver.panicked(payload);
    }
    if let Some(quiescence) = driver.quiescence() {
        quiescence.driver_ended();
    }
}

struct Driver<'a> {
    shard: Arc<Shard>,
    dispatcher: Dispatcher,
    rounds: Rounds,
    stragglers: Stragglers,
    scheduling: Scheduling,
    whereabouts: &'a Whereabouts,
    /// Timers that have come out of the wheel, and were not handed over yet.
    due: Vec<u32>,
}

impl Driver<'_> {
    fn run(&mut self) {
        while !self.shard.core.is_closing() {
            // Read before the rounds begin, so that the answer covers all that came before the request.
            let request = self.quiescence().map_or(0, Quiescence::begin_round);
            let now = self.make_rounds();
            if let Some(quiescence) = self.quiescence() {
                quiescence.end_round(request, self.rounds.next_deadline());
            }
            while !self.sleep(now, request) {}
        }
    }

    /// Closes the shard when its driver has panicked, and leaves nothing behind that others wait for. The wheel, which may
    /// be broken, is not used any more.
    fn panicked(&mut self, payload: Box<dyn Any + Send>) {
        self.shard.driver_panicked(payload);
        if let Some(quiescence) = self.quiescence() {
            quiescence.begin(self.due.len());
        }
        // Takes each out of its batch, and leaves it to the shutdown, as the shard is closed.
        mem::take(&mut self.due).into_iter().for_each(|index| self.shard.run(index, 0));
    }

    fn quiescence(&self) -> Option<&Quiescence> {
        self.shard.quiescence()
    }

    /// Makes rounds until there is nothing left to do. Returns the tick of the last.
    fn make_rounds(&mut self) -> u64 {
        let mut turns = 0;
        loop {
            let now = self.shard.ticks.now_tick();
            self.round(now);
            let core = &self.shard.core;
            if core.is_closing() {
                return now;
            }
            if self.rounds.prepare(core) {
                continue;
            }
            // Both, each time: each has a bounded turn.
            if !(self.rounds.rest(core) | self.shard.registry.trim()) {
                return now;
            }
            turns += 1;
            if turns % TURNS == 0 {
                thread::yield_now();
            }
        }
    }

    /// Makes a round at the tick `now`.
    fn round(&mut self, now: u64) {
        self.rounds.begin(&self.shard.core, now);
        let mut over = false;
        while !over && !self.shard.core.is_closing() {
            over = self.rounds.turn(&self.shard.core, &mut self.due);
            if !self.due.is_empty() {
                self.hand_over(now);
            }
        }
    }

    fn hand_over(&mut self, now: u64) {
        let shard = &self.shard;
        #[cfg(test)]
        assert!(!shard.fault.load(std::sync::atomic::Ordering::Relaxed), "a test has broken the wheel");
        let begin = |timers| shard.quiescence().iter().for_each(|quiescence| quiescence.begin(timers));
        // Tasks are woken here and now: it takes no longer than to hand them over.
        let mut wakers = self.due.extract_if(.., |&mut index| shard.wakes(index)).peekable();
        if wakers.peek().is_some() {
            self.scheduling.restore();
        }
        wakers.for_each(|index| {
            begin(1);
            shard.run(index, now);
        });
        if !self.due.is_empty() {
            if self.dispatcher.runs_foreign_code() {
                self.scheduling.restore();
            }
            begin(self.due.len());
            let batch = Batch::new(shard.clone(), now, mem::take(&mut self.due));
            let dispatch = || self.dispatcher.dispatch(batch, |payload| shard.caught(payload));
            let watched = if self.dispatcher.may_block() { self.whereabouts.execute(dispatch) } else { dispatch() };
            watched.into_iter().for_each(|batch| self.stragglers.add(batch));
        }
    }

    /// Sleeps until the next deadline, or something comes in that is due earlier, or it is time to look for
    /// stragglers. Returns whether there is reason for a new round.
    fn sleep(&mut self, now: u64, request: u64) -> bool {
        let unpin = || self.scheduling.restore();
        let look_at = self.stragglers.look(&self.dispatcher, unpin).map(|time| Instant::now() + time);
        self.scheduling.apply();
        let (core, ticks) = (&self.shard.core, &self.shard.ticks);
        let left = || look_at.map(|at| at.saturating_duration_since(Instant::now()));
        let (wakeups, rested) = match self.shard.quiescence() {
            None => {
                let timeout = |tick| earlier((tick != NEVER).then(|| ticks.until(tick)), left());
                let idle = || self.rounds.is_idle(core) && !self.shard.registry.has_surplus() && !core.is_closing();
                (core.bell.sleep(now, self.rounds.next_deadline(), timeout, idle), true)
            }
            Some(quiescence) => {
                // Time does not pass by itself: only a request wakes the driver.
                let unasked = || quiescence.last_request() == request && !core.is_closing();
                let timeout = |tick| if tick == 0 { Some(Duration::ZERO) } else { left() };
                (core.bell.sleep(now, 1, timeout, unasked), !unasked())
            }
        };
        local::with(&self.shard, |local| local.count_more(|record| &record.wakeups, wakeups));
        rested
    }
}

fn earlier(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    one.into_iter().chain(other).min()
}
