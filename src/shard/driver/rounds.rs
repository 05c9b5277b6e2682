//! `Driver`: turns the wheel of a shard, and sleeps until the next deadline. With no deadline it sleeps until it is
//! woken.
//!
//! A timer comes here from the intake, waits in the wheel, and leaves in a [`TimerBatch`] when it expires. The driver calls
//! wakers of futures itself. A `Driver` is a plain value: [`drive`](mod@super::drive) decides which thread calls it.
//!
//! | phase   | the driver                                                            | next                                |
//! |---------|-----------------------------------------------------------------------|-------------------------------------|
//! | `Wake`  | reads which request the next rounds answer, in virtual time           | `Begin`                             |
//! | `Begin` | reads the clock, and takes the intake                                 | `Turn`                              |
//! | `Turn`  | makes one turn: links what came in, and steps the wheel. Calls the wakers that expired. Returns a batch if callbacks expired | `Turn`, or `Rest` when the round is over |
//! | `Rest`  | makes a turn of non-urgent work: cascades ahead, trims memory         | `Begin` if there may be more, or `Sleep` |
//! | `Sleep` | answers the request, and returns `Idle`: the caller should call `sleep` | `Wake`, after the sleep           |
//!
//! - Each turn is bounded to some 50 µs, and expired timers go out after each. So a large backlog does not delay the
//!   first batches.
//! - A round is one `Begin` and the turns after it: it handles all that expired at one reading of the clock.
//! - While the driver [is busy](super::load), it trims at most once in a millisecond.
//!
//! A panic of the driver is a defect of the crate, as it catches the panics of all foreign code. The wheel may then be
//! broken, so the driver [closes](crate::shard::close) its shard, reports the panic, and ends. Other shards go on.

use std::mem;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::batch::TimerBatch;
use super::defer::TurnGuard;
use super::load::Load;
use super::stragglers::Stragglers;
use crate::clock::{NEVER, Quiescence};
use crate::engine::entry::Role;
use crate::engine::turn::DriverCore;
use crate::executor::Dispatcher;
use crate::shard::Shard;
use crate::shard::thread_state;
use crate::system::Scheduling;
use crate::wheel::Levels;

/// Number of trim turns, of some 50 µs each, after which the driver yields its core.
///
/// Each yield may cost milliseconds, so the driver does not yield after every turn: beside four busy threads on two
/// cores, that made the trim take four times as long.
const YIELD_EVERY: u32 = 8;

/// The driver of one shard.
pub(super) struct Driver {
    pub(super) shard: Arc<Shard>,
    pub(super) dispatcher: Dispatcher,
    core: DriverCore,
    /// The batches that were dispatched, to check whether they take too long.
    pub(super) stragglers: Stragglers,
    phase: Phase,
    /// The request of the virtual clock that this round answers. See [`Quiescence`].
    request: u64,
    /// The tick that this round has read from the clock.
    now: u64,
    /// Number of trim turns since the driver last slept.
    turns: u32,
    pub(super) load: Load,
    /// How long the next trim turn is delayed, because the driver is busy.
    trim_delay: Option<Duration>,
    /// Timers that have left the wheel, and are in no batch yet.
    expired: Vec<u32>,
}

/// What the driver does next.
#[derive(Clone, Copy)]
enum Phase {
    /// Reads which request the next rounds answer.
    Wake,
    /// Begins a round.
    Begin,
    /// Makes one turn of the round.
    Turn,
    /// The round is over: does non-urgent work.
    Rest,
    /// Nothing is left to do: answers the request.
    Sleep,
}

/// Why `advance` has returned.
pub(super) enum Stop {
    /// These callbacks have expired, and should be run.
    Dispatch(TimerBatch),
    /// Nothing is left to do: the caller should call `sleep`.
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

    /// Makes rounds until there is a reason to stop. May be called again afterwards, also on another thread.
    pub(super) fn advance(&mut self, scheduling: &mut Scheduling) -> Stop {
        while !self.shard.core.is_closing() {
            match self.phase {
                Phase::Wake => {
                    // Read before the round begins, so that the answer covers all that happened before the request.
                    self.request = self.shard.quiescence().map_or(0, Quiescence::last_request);
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

    /// Makes a bounded turn of non-urgent work. Returns whether the driver should begin a new round instead of
    /// sleeping.
    fn maintain(&mut self) -> bool {
        let core = &self.shard.core;
        if self.core.cascade_ahead(core, &mut self.expired) {
            return true;
        }
        let has_memory = self.core.has_memory_to_trim(core) || self.shard.registry.has_surplus();
        self.trim_delay = if has_memory { self.load.trim_delay() } else { None };
        if self.trim_delay.is_some() {
            self.core.drain_cache(core);
            return false;
        }
        // Not `||`: both make a bounded turn each time.
        let again = self.core.reclaim(core) | self.shard.registry.trim();
        if again {
            self.turns += 1;
            if self.turns.is_multiple_of(YIELD_EVERY) {
                thread::yield_now();
            }
        }
        again
    }

    /// Takes the expired timers: calls wakers, and returns the callbacks as a batch.
    fn take_expired(&mut self, scheduling: &mut Scheduling) -> Option<TimerBatch> {
        if self.expired.is_empty() {
            return None;
        }
        let (shard, now) = (&self.shard, self.now);
        #[cfg(test)]
        assert!(!shard.fault.load(std::sync::atomic::Ordering::Relaxed), "a test has broken the wheel");
        let begin = |timers| shard.quiescence().iter().for_each(|quiescence| quiescence.begin(timers));
        // Values are made due and wakers called here, because that takes no longer than to dispatch them. All values come
        // first, as a waker is foreign code: it may wait for a callback that waits for a value.
        let mut has_wakers = false;
        let is_value = |&mut index: &mut u32| {
            let role = shard.role(index);
            has_wakers |= role == Role::Waker;
            role == Role::Value
        };
        let mut turn = None;
        for index in self.expired.extract_if(.., is_value) {
            turn.get_or_insert_with(TurnGuard::begin);
            begin(1);
            shard.run(index, now);
        }
        if turn.is_some() || has_wakers {
            scheduling.restore();
        }
        drop(turn);
        if has_wakers {
            for index in self.expired.extract_if(.., |&mut index| shard.role(index) == Role::Waker) {
                begin(1);
                shard.run(index, now);
            }
        }
        if self.expired.is_empty() {
            return None;
        }
        begin(self.expired.len());
        self.load.record_callbacks(self.expired.len());
        Some(TimerBatch::new(shard.clone(), now, mem::take(&mut self.expired)))
    }

    /// Sleeps until the next deadline, an earlier one that comes in, or the end of `longest`. Checks stragglers
    /// meanwhile.
    ///
    /// Does not sleep if `is_recalled` returns true; the thread that recalls must wake the driver afterwards. After
    /// this call the driver begins a new round, unless the shard is closed.
    pub(super) fn sleep(
        &mut self,
        scheduling: &mut Scheduling,
        longest: Option<Duration>,
        is_recalled: impl Fn() -> bool,
    ) {
        while !self.sleep_once(scheduling, longest, &is_recalled) {}
        self.phase = Phase::Wake;
    }

    /// Sleeps once, until the next check of a straggler at the latest. Returns whether there is a reason for a new
    /// round.
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
                // Virtual time does not pass by itself, so no deadline ends this sleep: a request does, or a straggler.
                let is_quiet = || quiescence.last_request() == self.request && !core.is_closing();
                let timeout = |tick| if tick == 0 { Some(Duration::ZERO) } else { left() };
                (core.wakeup.sleep(self.now, 1, timeout, is_quiet), !is_quiet())
            }
        };
        thread_state::with(&self.shard, |thread| thread.add(|counters| &counters.wakeups, wakeups));
        has_reason
    }

    /// Leaves the expired timers to the shutdown, after the driver has panicked. The driver must not be used
    /// afterwards.
    pub(super) fn abandon(&mut self) {
        if let Some(quiescence) = self.shard.quiescence() {
            quiescence.begin(self.expired.len());
        }
        // The shard is closed. So `run` only takes each timer out of its batch, and the shutdown ends it.
        mem::take(&mut self.expired).into_iter().for_each(|index| self.shard.run(index, 0));
    }
}

/// Returns the shorter of two times, of which either may be missing.
fn earlier(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    one.into_iter().chain(other).min()
}
