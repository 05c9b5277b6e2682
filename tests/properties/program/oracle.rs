//! The oracle: a list of timers, the tick at which each is due, and the expected counts.
//!
//! Time counts from the build of the timer. The oracle knows no wheel, shard or thread.

use std::time::Duration;

use corewheel::Stats;

use super::grammar::ticks;

/// A timer's index in the list.
pub type Id = usize;

/// `None` is never.
pub type Deadline = Option<Duration>;

/// The tick of a timer that is never due.
pub const NEVER: u64 = u64::MAX;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Once,
    Repeating,
    Sleep,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Waiting,
    /// A repeating timer runs; `was_reset` says whether its deadline has been reset during the run.
    Running {
        was_reset: bool,
    },
    Ended,
}

#[derive(Clone, Debug)]
pub struct TimerRecord {
    kind: Kind,
    state: State,
    /// The deadline of the last call that set one, until the timer has run for it.
    requested: Option<Duration>,
    /// The tick at which it runs.
    pub due: u64,
    /// When `due` was set. The timer cannot run before.
    set_at: Duration,
    /// The deadline by the timer's own schedule. `None`: a reset has replaced it since the last run.
    own_deadline: Option<Duration>,
    /// When it ran last.
    last_run: Option<Duration>,
}

/// Why a timer was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    ZeroPeriod,
    Shutdown,
    Full,
    OutOfMemory,
}

/// The fields of [`Stats`] that the oracle predicts.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Counts {
    pub scheduled: u64,
    pub fired: u64,
    pub completed: u64,
    pub cancelled: u64,
    pub unfired: u64,
    pub pending: u64,
    pub resets: u64,
    pub panicked: u64,
    pub rejected: u64,
}

impl From<Stats> for Counts {
    fn from(stats: Stats) -> Self {
        Self {
            scheduled: stats.scheduled,
            fired: stats.fired,
            completed: stats.completed,
            cancelled: stats.cancelled,
            unfired: stats.unfired,
            pending: stats.pending,
            resets: stats.resets,
            panicked: stats.panicked,
            rejected: stats.rejected,
        }
    }
}

pub struct Oracle {
    tick: Duration,
    max_pending: Option<usize>,
    pub now: Duration,
    pub is_shut_down: bool,
    pub timers: Vec<TimerRecord>,
    pub counts: Counts,
}

impl Oracle {
    pub fn new(tick: Duration, max_pending: Option<usize>) -> Self {
        Self {
            tick,
            max_pending,
            now: Duration::ZERO,
            is_shut_down: false,
            timers: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Returns the tick of a deadline: the present tick for one that has passed, else the first tick not before it.
    pub fn due(&self, deadline: Deadline) -> u64 {
        let tick = self.tick.as_nanos();
        match deadline {
            None => NEVER,
            Some(deadline) if deadline <= self.now => (self.now.as_nanos() / tick) as u64,
            Some(deadline) => deadline.as_nanos().div_ceil(tick) as u64,
        }
    }

    /// Returns the time of a tick.
    pub fn time(&self, tick: u64) -> Deadline {
        (tick != NEVER).then(|| ticks(self.tick, tick))
    }

    pub fn is_reached(&self, tick: u64) -> bool {
        self.time(tick).is_some_and(|time| time <= self.now)
    }

    /// Returns the first tick at which a timer is due.
    pub fn next(&self) -> Option<u64> {
        self.timers.iter().filter(|timer| timer.state == State::Waiting).map(|timer| timer.due).min()
    }

    pub fn is_anything_due(&self) -> bool {
        self.next().is_some_and(|tick| self.is_reached(tick))
    }

    pub fn has_limit(&self) -> bool {
        self.max_pending.is_some()
    }

    pub fn is_pending(&self, id: Id) -> bool {
        self.timers[id].state != State::Ended
    }

    pub fn has_closure(&self, id: Id) -> bool {
        self.timers[id].kind != Kind::Sleep
    }

    pub fn is_running(&self, id: Id) -> bool {
        matches!(self.timers[id].state, State::Running { .. })
    }

    pub fn is_due(&self, id: Id) -> bool {
        self.is_pending(id) && self.is_reached(self.timers[id].due)
    }

    pub fn ran_now(&self, id: Id) -> bool {
        self.timers[id].last_run == Some(self.now)
    }

    /// Whether a callback may be running.
    pub fn is_busy(&self) -> bool {
        self.is_anything_due() || (0..self.timers.len()).any(|id| self.ran_now(id))
    }

    /// Returns the callbacks that wait for their next run.
    pub fn waiting(&self) -> Vec<Id> {
        let waits = |&id: &Id| self.timers[id].state == State::Waiting && self.has_closure(id);
        (0..self.timers.len()).filter(waits).collect()
    }

    /// Adds a timer, and says whether it is refused. A refused timer has an id, too.
    pub fn schedule(&mut self, kind: Kind, deadline: Deadline, zero_period: bool) -> (Id, Option<Refusal>) {
        let refusal = if zero_period {
            Some(Refusal::ZeroPeriod)
        } else if self.is_shut_down {
            Some(Refusal::Shutdown)
        } else if self.max_pending.is_some_and(|max| self.permits_taken() >= max) {
            Some(Refusal::Full)
        } else {
            None
        };
        let id = self.add(kind, deadline, self.due(deadline));
        if refusal.is_some() {
            self.timers[id].state = State::Ended;
            self.counts.rejected += 1;
        } else {
            self.counts.scheduled += 1;
            self.counts.pending += 1;
        }
        (id, refusal)
    }

    /// Turns a timer that was accepted into one that was refused for lack of memory.
    pub fn refuse_for_memory(&mut self, id: Id) {
        self.end(id);
        self.counts.scheduled -= 1;
        self.counts.rejected += 1;
    }

    /// Adds the timer of a future. Its deadline was at the tick `due` when it was set.
    pub fn sleep(&mut self, deadline: Deadline, due: u64) -> Id {
        self.counts.scheduled += 1;
        self.counts.pending += 1;
        self.add(Kind::Sleep, deadline, due)
    }

    fn add(&mut self, kind: Kind, requested: Deadline, due: u64) -> Id {
        let (set_at, own_deadline) = (self.now, requested);
        self.timers.push(TimerRecord {
            kind,
            state: State::Waiting,
            requested,
            due,
            set_at,
            own_deadline,
            last_run: None,
        });
        self.timers.len() - 1
    }

    /// Returns how many of the `max_pending` permits are taken. Futures take none.
    fn permits_taken(&self) -> usize {
        self.timers.iter().filter(|timer| timer.state != State::Ended && timer.kind != Kind::Sleep).count()
    }

    pub fn cancel(&mut self, id: Id) -> bool {
        let pending = self.is_pending(id);
        if pending {
            self.end(id);
            self.counts.cancelled += 1;
        }
        pending
    }

    pub fn reset(&mut self, id: Id, deadline: Deadline) -> bool {
        let due = self.due(deadline);
        let now = self.now;
        let timer = &mut self.timers[id];
        match &mut timer.state {
            State::Ended => return false,
            State::Running { was_reset } => *was_reset = true,
            State::Waiting => {}
        }
        (timer.requested, timer.due, timer.set_at) = (deadline, due, now);
        timer.own_deadline = None;
        self.counts.resets += 1;
        true
    }

    /// Checks that a timer may run now. Returns the deadline of the run.
    pub fn start(&mut self, id: Id) -> Duration {
        let now = self.now;
        let timer = &self.timers[id];
        assert_eq!(timer.state, State::Waiting, "timer {id} runs");
        let time = self.time(timer.due).expect("a timer that is never due does not run");
        assert_eq!(time.max(timer.set_at), now, "timer {id} runs at the wrong time");
        self.counts.fired += 1;
        // After a reset to a passed deadline, the present is later than the beginning of the tick.
        let deadline = timer.own_deadline.unwrap_or(now);
        if timer.kind == Kind::Repeating {
            self.timers[id].state = State::Running { was_reset: false };
        } else {
            self.complete(id);
        }
        self.timers[id].last_run = Some(now);
        deadline
    }

    /// Ends a timer because the executor dropped its job. The timer may have been reset after the job was handed over.
    pub fn drop_job(&mut self, id: Id) {
        let timer = &self.timers[id];
        assert_eq!(timer.state, State::Waiting, "the job of timer {id} is dropped");
        assert!(self.is_reached(timer.due) || timer.set_at == self.now, "timer {id} was handed over too early");
        self.cancel(id);
    }

    /// Returns the deadline that a pending timer displays: the requested one if it fits into 64 bits of nanoseconds,
    /// else the time of its tick.
    pub fn displayed_deadline(&self, id: Id) -> Deadline {
        let timer = &self.timers[id];
        timer.requested.filter(|requested| requested.as_nanos() < u64::MAX.into()).or_else(|| self.time(timer.due))
    }

    /// Ends a run of a repeating timer, which runs again at this deadline.
    pub fn run_again(&mut self, id: Id, deadline: Deadline) {
        let due = self.due(deadline);
        let timer = &mut self.timers[id];
        let State::Running { was_reset } = timer.state else { return };
        if !was_reset {
            timer.own_deadline = deadline;
            (timer.requested, timer.due, timer.set_at) = (None, due, self.now);
        }
        timer.state = State::Waiting;
    }

    /// Ends the last run of a repeating timer.
    pub fn finish(&mut self, id: Id) {
        if self.is_running(id) {
            self.complete(id);
        }
    }

    /// Ends a run of a recurring timer that has returned `None`. It is the last one, unless a reset came during it.
    pub fn finish_unless_reset(&mut self, id: Id) {
        if self.was_reset(id) {
            self.timers[id].state = State::Waiting;
        } else {
            self.finish(id);
        }
    }

    /// Returns whether a repeating timer was reset during its run.
    pub fn was_reset(&self, id: Id) -> bool {
        self.timers[id].state == State::Running { was_reset: true }
    }

    /// Ends a timer that has run, or a sleep that is over.
    pub fn complete(&mut self, id: Id) {
        assert!(self.is_pending(id), "timer {id} is completed");
        self.end(id);
        self.counts.completed += 1;
    }

    pub fn hand_back(&mut self, id: Id) {
        assert_eq!(self.timers[id].state, State::Waiting, "timer {id} is handed back");
        self.end(id);
        self.counts.unfired += 1;
    }

    fn end(&mut self, id: Id) {
        self.timers[id].state = State::Ended;
        self.counts.pending -= 1;
    }
}
