//! What drives a shard: it looks at what has come in, finds what is due, and sleeps until the next deadline. With nothing
//! due it sleeps for good.
//!
//! The driver has a thread of its own, which hands over what is due. While there is much to do it
//! [lends](crate::engine::loan) itself to a worker of the pool.
//!
//! A panic of the driver would be a defect of the crate, as it catches those of all foreign code. Its wheel may be broken
//! then, so no timer can be kept there any more: the driver closes its shard, says so, and ends. Other shards go on.

use std::mem;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::batch::Batch;
use super::binding::Shard;
use super::load::Load;
use super::stragglers::Stragglers;
use super::thread_state;
use crate::clock::{NEVER, Quiescence};
use crate::engine::turn::DriverCore;
use crate::executor::Dispatcher;
use crate::system::Scheduling;
use crate::wheel::Levels;

/// After how many turns of giving memory back, some 50 µs each, whoever else runs on this core goes first. As that may take
/// him milliseconds each time, it is not after every turn: beside four busy threads on two cores it took four times as long.
const YIELD_EVERY: u32 = 8;

pub(super) struct Driver {
    pub(super) shard: Arc<Shard>,
    dispatcher: Dispatcher,
    core: DriverCore,
    stragglers: Stragglers,
    phase: Phase,
    /// The request that this round answers: see [`Quiescence`].
    request: u64,
    /// The tick of this round.
    now: u64,
    /// How many turns there were since the driver last slept.
    turns: u32,
    pub(super) load: Load,
    /// For how long it puts off giving memory back.
    trim_delay: Option<Duration>,
    /// Timers that have come out of the wheel, and were not handed over yet.
    expired: Vec<u32>,
}

/// What the driver does next.
#[derive(Clone, Copy)]
enum Phase {
    /// It begins rounds that answer a new request.
    Wake,
    Begin,
    Turn,
    /// The round is over.
    Rest,
    Sleep,
}

/// Why the driver stops.
pub(super) enum Stop {
    /// These callbacks are to be run.
    Dispatch(Batch),
    /// Nothing is left to do: it should sleep.
    Idle,
    /// The shard is closed.
    Closed,
}

impl Driver {
    pub(super) fn new(shard: Arc<Shard>, levels: Levels, dispatcher: Dispatcher) -> Self {
        Self {
            shard,
            dispatcher,
            core: DriverCore::new(levels),
            stragglers: Stragglers::default(),
            phase: Phase::Wake,
            request: 0,
            now: 0,
            turns: 0,
            load: Load::new(),
            trim_delay: None,
            expired: Vec::new(),
        }
    }

    pub(super) fn dispatcher(&self) -> &Dispatcher {
        &self.dispatcher
    }

    /// Watches a batch that was handed over just now.
    pub(super) fn watch(&mut self, batch: Arc<Batch>) {
        self.stragglers.add(batch);
    }

    /// How many batches it watches.
    #[cfg(test)]
    pub(super) fn watched(&self) -> usize {
        self.stragglers.len()
    }

    /// Watches one that should be finished by now.
    pub(super) fn watch_straggler(&mut self, batch: Arc<Batch>) {
        self.stragglers.add_straggler(batch);
    }

    /// Makes rounds until the driver stops. After each stop it may be called again, also on another thread.
    pub(super) fn advance(&mut self, scheduling: &mut Scheduling) -> Stop {
        while !self.shard.core.is_closing() {
            match self.phase {
                Phase::Wake => {
                    // Read before the rounds begin, so that the answer covers all that came before the request.
                    self.request = self.shard.quiescence().map_or(0, Quiescence::begin_round);
                    self.turns = 0;
                    self.phase = Phase::Begin;
                }
                Phase::Begin => {
                    self.now = self.shard.ticks.now_tick();
                    self.core.begin(&self.shard.core, self.now);
                    self.phase = Phase::Turn;
                }
                Phase::Turn => {
                    if self.core.turn(&self.shard.core, &mut self.expired) {
                        self.phase = Phase::Rest;
                    }
                    if let Some(batch) = self.take_expired(scheduling) {
                        return Stop::Dispatch(batch);
                    }
                }
                Phase::Rest => self.phase = if self.maintain() { Phase::Begin } else { Phase::Sleep },
                Phase::Sleep => {
                    if let Some(quiescence) = self.shard.quiescence() {
                        quiescence.end_round(self.request, self.core.next_deadline());
                    }
                    self.load.record_idle();
                    return Stop::Idle;
                }
            }
        }
        Stop::Closed
    }

    /// Does in bounded turns what is not urgent. Returns whether there may be reason for a new round.
    fn maintain(&mut self) -> bool {
        let core = &self.shard.core;
        if self.core.cascade_ahead(core) {
            return true;
        }
        let has_memory = self.core.has_memory(core) || self.shard.registry.has_surplus();
        self.trim_delay = if has_memory { self.load.trim_delay() } else { None };
        if self.trim_delay.is_some() {
            self.core.give_back(core);
            return false;
        }
        // Both, each time: each has a bounded turn.
        let again = self.core.reclaim(core) | self.shard.registry.trim();
        if again {
            self.turns += 1;
            if self.turns.is_multiple_of(YIELD_EVERY) {
                thread::yield_now();
            }
        }
        again
    }

    /// Takes the callbacks that are due. Wakes the tasks that are.
    fn take_expired(&mut self, scheduling: &mut Scheduling) -> Option<Batch> {
        if self.expired.is_empty() {
            return None;
        }
        let (shard, now) = (&self.shard, self.now);
        #[cfg(test)]
        assert!(!shard.fault.load(std::sync::atomic::Ordering::Relaxed), "a test has broken the wheel");
        let begin = |timers| shard.quiescence().iter().for_each(|quiescence| quiescence.begin(timers));
        // Tasks are woken here and now: it takes no longer than to hand them over.
        let mut wakers = self.expired.extract_if(.., |&mut index| shard.wakes(index)).peekable();
        if wakers.peek().is_some() {
            scheduling.restore();
        }
        wakers.for_each(|index| {
            begin(1);
            shard.run(index, now);
        });
        if self.expired.is_empty() {
            return None;
        }
        begin(self.expired.len());
        self.load.record_callbacks(self.expired.len());
        Some(Batch::new(shard.clone(), now, mem::take(&mut self.expired)))
    }

    /// Sleeps until the next deadline, an earlier one that comes in, or the end of the `longest` time. Looks for stragglers
    /// meanwhile. Returns at once if the driver `is_recalled`; a caller rings after its call. There is reason for a new round
    /// afterwards, unless the shard is closed.
    pub(super) fn sleep(
        &mut self,
        scheduling: &mut Scheduling,
        longest: Option<Duration>,
        is_recalled: impl Fn() -> bool,
    ) {
        while !self.sleep_once(scheduling, longest, &is_recalled) {}
        self.phase = Phase::Wake;
    }

    /// Returns whether there is reason for a new round.
    fn sleep_once(
        &mut self,
        scheduling: &mut Scheduling,
        longest: Option<Duration>,
        is_recalled: impl Fn() -> bool,
    ) -> bool {
        let straggler = self.stragglers.check(&self.dispatcher, || scheduling.restore());
        let longest = earlier(longest, self.trim_delay);
        let check_at = earlier(straggler, longest).map(|time| Instant::now() + time);
        scheduling.apply();
        let (core, ticks) = (&self.shard.core, &self.shard.ticks);
        let left = || check_at.map(|at| at.saturating_duration_since(Instant::now()));
        let (wakeups, has_reason) = match self.shard.quiescence() {
            None => {
                let timeout = |tick| earlier((tick != NEVER).then(|| ticks.until(tick)), left());
                let is_idle = || match self.trim_delay {
                    Some(_) => core.intake_is_empty(),
                    None => self.core.is_idle(core) && !self.shard.registry.has_surplus(),
                };
                let idle = || is_idle() && !core.is_closing() && !is_recalled();
                (core.wakeup.sleep(self.now, self.core.next_deadline(), timeout, idle), true)
            }
            Some(quiescence) => {
                // Time does not pass by itself: only a request wakes the driver.
                let is_quiet = || quiescence.last_request() == self.request && !core.is_closing();
                let timeout = |tick| if tick == 0 { Some(Duration::ZERO) } else { left() };
                (core.wakeup.sleep(self.now, 1, timeout, is_quiet), !is_quiet())
            }
        };
        thread_state::with(&self.shard, |thread| thread.add(|counters| &counters.wakeups, wakeups));
        has_reason
    }

    /// The driver has panicked, and is not used any more. Leaves nothing behind that others wait for.
    pub(super) fn abandon(&mut self) {
        if let Some(quiescence) = self.shard.quiescence() {
            quiescence.begin(self.expired.len());
        }
        // Takes each out of its batch, and leaves it to the shutdown, as the shard is closed.
        mem::take(&mut self.expired).into_iter().for_each(|index| self.shard.run(index, 0));
    }
}

fn earlier(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    one.into_iter().chain(other).min()
}
