//! What should come of a program: a list of timers, what each is due at, and the books.
//!
//! Time is counted from the timer's birth. It knows of no wheel, shard or thread.

use std::time::Duration;

use corewheel::Stats;

use super::language::ticks;

/// A timer by its place in the list.
pub type Id = usize;

/// `None` is never.
pub type Deadline = Option<Duration>;

/// The tick of what is never due.
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
    /// A repeating one in a run, and whether that has been given another deadline meanwhile.
    Running {
        moved: bool,
    },
    Over,
}

#[derive(Clone, Debug)]
pub struct Timer {
    kind: Kind,
    state: State,
    /// As it was last asked for by whoever has the handle, until it has run then.
    asked: Option<Duration>,
    /// The tick at which it runs.
    pub due: u64,
    /// When that was set: it cannot run before.
    since: Duration,
    /// The deadline by the timer's own rule, and the tick that it comes to: it may have been moved to another since.
    by_rule: (Deadline, u64),
    /// When it ran last.
    ran: Option<Duration>,
}

/// Why a timer is not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    ZeroPeriod,
    Shutdown,
    Full,
    OutOfMemory,
}

/// What can be told of the [`Stats`].
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Books {
    pub scheduled: u64,
    pub fired: u64,
    pub completed: u64,
    pub cancelled: u64,
    pub unfired: u64,
    pub pending: u64,
    pub rearmed: u64,
    pub panicked: u64,
    pub rejected: u64,
}

impl From<Stats> for Books {
    fn from(stats: Stats) -> Self {
        Self {
            scheduled: stats.scheduled,
            fired: stats.fired,
            completed: stats.completed,
            cancelled: stats.cancelled,
            unfired: stats.unfired,
            pending: stats.pending,
            rearmed: stats.rearmed,
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
    pub timers: Vec<Timer>,
    pub books: Books,
}

impl Oracle {
    pub fn new(tick: Duration, max_pending: Option<usize>) -> Self {
        Self {
            tick,
            max_pending,
            now: Duration::ZERO,
            is_shut_down: false,
            timers: Vec::new(),
            books: Books::default(),
        }
    }

    /// What is due by now is due at the present tick; what is due later, at the first tick that is not before.
    pub fn due(&self, deadline: Deadline) -> u64 {
        let tick = self.tick.as_nanos();
        match deadline {
            None => NEVER,
            Some(deadline) if deadline <= self.now => (self.now.as_nanos() / tick) as u64,
            Some(deadline) => deadline.as_nanos().div_ceil(tick) as u64,
        }
    }

    /// The time of a tick.
    pub fn time(&self, tick: u64) -> Deadline {
        (tick != NEVER).then(|| ticks(self.tick, tick))
    }

    pub fn has_come(&self, tick: u64) -> bool {
        self.time(tick).is_some_and(|time| time <= self.now)
    }

    /// The first tick at which something is due.
    pub fn next(&self) -> Option<u64> {
        self.timers.iter().filter(|timer| timer.state == State::Waiting).map(|timer| timer.due).min()
    }

    pub fn is_anything_due(&self) -> bool {
        self.next().is_some_and(|tick| self.has_come(tick))
    }

    pub fn has_limit(&self) -> bool {
        self.max_pending.is_some()
    }

    pub fn is_pending(&self, id: Id) -> bool {
        self.timers[id].state != State::Over
    }

    pub fn has_closure(&self, id: Id) -> bool {
        self.timers[id].kind != Kind::Sleep
    }

    pub fn is_running(&self, id: Id) -> bool {
        matches!(self.timers[id].state, State::Running { .. })
    }

    pub fn is_due(&self, id: Id) -> bool {
        self.is_pending(id) && self.has_come(self.timers[id].due)
    }

    pub fn ran_now(&self, id: Id) -> bool {
        self.timers[id].ran == Some(self.now)
    }

    /// Whether a callback may be running.
    pub fn is_busy(&self) -> bool {
        self.is_anything_due() || (0..self.timers.len()).any(|id| self.ran_now(id))
    }

    /// The callbacks that are yet to run.
    pub fn waiting(&self) -> Vec<Id> {
        let waits = |&id: &Id| self.timers[id].state == State::Waiting && self.has_closure(id);
        (0..self.timers.len()).filter(waits).collect()
    }

    /// A timer is offered. Who is refused has an id as well.
    pub fn schedule(&mut self, kind: Kind, deadline: Deadline, zero_period: bool) -> (Id, Option<Refusal>) {
        let refusal = if zero_period {
            Some(Refusal::ZeroPeriod)
        } else if self.is_shut_down {
            Some(Refusal::Shutdown)
        } else if self.max_pending.is_some_and(|most| self.places_taken() >= most) {
            Some(Refusal::Full)
        } else {
            None
        };
        let id = self.add(kind, deadline, self.due(deadline));
        if refusal.is_some() {
            self.timers[id].state = State::Over;
            self.books.rejected += 1;
        } else {
            self.books.scheduled += 1;
            self.books.pending += 1;
        }
        (id, refusal)
    }

    /// The system had no memory for a timer that would have been accepted.
    pub fn lacks_memory(&mut self, id: Id) {
        self.end(id);
        self.books.scheduled -= 1;
        self.books.rejected += 1;
    }

    /// A future waits for its deadline, which came to the tick `due` when it was set.
    pub fn sleep(&mut self, deadline: Deadline, due: u64) -> Id {
        self.books.scheduled += 1;
        self.books.pending += 1;
        self.add(Kind::Sleep, deadline, due)
    }

    fn add(&mut self, kind: Kind, asked: Deadline, due: u64) -> Id {
        let (since, by_rule) = (self.now, (asked, due));
        self.timers.push(Timer { kind, state: State::Waiting, asked, due, since, by_rule, ran: None });
        self.timers.len() - 1
    }

    /// Futures take none.
    fn places_taken(&self) -> usize {
        self.timers.iter().filter(|timer| timer.state != State::Over && timer.kind != Kind::Sleep).count()
    }

    pub fn cancel(&mut self, id: Id) -> bool {
        let pending = self.is_pending(id);
        if pending {
            self.end(id);
            self.books.cancelled += 1;
        }
        pending
    }

    pub fn reset(&mut self, id: Id, deadline: Deadline) -> bool {
        let (due, now) = (self.due(deadline), self.now);
        let timer = &mut self.timers[id];
        match &mut timer.state {
            State::Over => return false,
            State::Running { moved } => *moved = true,
            State::Waiting => {}
        }
        (timer.asked, timer.due, timer.since) = (deadline, due, now);
        self.books.rearmed += 1;
        true
    }

    /// A timer runs: it must be time for it. Returns the deadline that it runs for.
    pub fn start(&mut self, id: Id) -> Duration {
        let now = self.now;
        let timer = &self.timers[id];
        assert_eq!(timer.state, State::Waiting, "timer {id} runs");
        let time = self.time(timer.due).expect("what runs is not due never");
        assert_eq!(time.max(timer.since), now, "timer {id} runs at the wrong time");
        self.books.fired += 1;
        let (by_rule, due) = timer.by_rule;
        let deadline = by_rule.filter(|_| timer.due == due).unwrap_or(time);
        if timer.kind == Kind::Repeating {
            self.timers[id].state = State::Running { moved: false };
        } else {
            self.complete(id);
        }
        self.timers[id].ran = Some(now);
        deadline
    }

    /// The executor drops the job of a timer, which may have been given another deadline since it was handed over.
    pub fn drop_job(&mut self, id: Id) {
        let timer = &self.timers[id];
        assert_eq!(timer.state, State::Waiting, "the job of timer {id} is dropped");
        assert!(self.has_come(timer.due) || timer.since == self.now, "timer {id} was handed over too early");
        self.cancel(id);
    }

    /// What is shown as the deadline of a timer that is yet to come: as it was asked for, where 64 bits can hold that, or
    /// its tick.
    pub fn shown(&self, id: Id) -> Deadline {
        let timer = &self.timers[id];
        timer.asked.filter(|asked| asked.as_nanos() < u64::MAX.into()).or_else(|| self.time(timer.due))
    }

    /// A repeating timer has run, and runs again at this deadline.
    pub fn run_again(&mut self, id: Id, deadline: Deadline) {
        let due = self.due(deadline);
        let timer = &mut self.timers[id];
        let State::Running { moved } = timer.state else { return };
        timer.by_rule = (deadline, due);
        if !moved {
            (timer.asked, timer.due, timer.since) = (None, due, self.now);
        }
        timer.state = State::Waiting;
    }

    /// A repeating timer has run for the last time.
    pub fn finish(&mut self, id: Id) {
        if self.is_running(id) {
            self.complete(id);
        }
    }

    /// A timer has run, or a sleep is over.
    pub fn complete(&mut self, id: Id) {
        assert!(self.is_pending(id), "timer {id} is completed");
        self.end(id);
        self.books.completed += 1;
    }

    pub fn hand_back(&mut self, id: Id) {
        assert_eq!(self.timers[id].state, State::Waiting, "timer {id} is handed back");
        self.end(id);
        self.books.unfired += 1;
    }

    fn end(&mut self, id: Id) {
        self.timers[id].state = State::Over;
        self.books.pending -= 1;
    }
}
