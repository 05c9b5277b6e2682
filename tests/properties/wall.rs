//! Random programs for a wall timer in virtual time, checked against a sorted list.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use corewheel::wall::{WallHandle, WallSleep, WallTimer};
use corewheel::{Executor, ManualClock, Timer};
use proptest::collection::vec;
use proptest::prelude::*;

const TICK: i64 = 1_000_000;
/// Where the time of day of each program begins, in nanoseconds since the epoch.
const START: i64 = 1_000 * TICK;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Clock {
    Day,
    Suspend,
}

/// Times are in nanoseconds from the present. Those of [`Clock::Suspend`] are not negative.
#[derive(Clone, Debug)]
enum Step {
    Schedule(Clock, i64),
    Sleep(Clock, i64),
    Reset(usize, Clock, i64),
    Cancel(usize),
    Poll(usize),
    SetTimeOfDay(i64),
    Suspend(i64),
    /// By whole ticks.
    Advance(i64),
}

fn times() -> impl Strategy<Value = i64> {
    prop_oneof![
        4 => (-5..40_i64).prop_map(|ticks| ticks * TICK),
        4 => -5 * TICK..40 * TICK,
        1 => -2000 * TICK..2000 * TICK,
    ]
}

fn target() -> impl Strategy<Value = (Clock, i64)> {
    prop_oneof![times().prop_map(|time| (Clock::Day, time)), times().prop_map(|time| (Clock::Suspend, time.max(0))),]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => target().prop_map(|(clock, time)| Step::Schedule(clock, time)),
        3 => target().prop_map(|(clock, time)| Step::Sleep(clock, time)),
        3 => (any::<usize>(), target()).prop_map(|(which, (clock, time))| Step::Reset(which, clock, time)),
        2 => any::<usize>().prop_map(Step::Cancel),
        3 => any::<usize>().prop_map(Step::Poll),
        2 => times().prop_map(Step::SetTimeOfDay),
        2 => times().prop_map(|time| Step::Suspend(time.max(0))),
        4 => (0..30_i64).prop_map(|ticks| Step::Advance(ticks * TICK)),
    ]
}

fn day(nanos: i64) -> SystemTime {
    let from_epoch = Duration::from_nanos(nanos.unsigned_abs());
    if nanos < 0 { UNIX_EPOCH - from_epoch } else { UNIX_EPOCH + from_epoch }
}

fn duration(nanos: i64) -> Duration {
    Duration::from_nanos(nanos.try_into().unwrap())
}

/// What has run or was woken, by its number, in order.
type Log = Arc<Mutex<Vec<usize>>>;

struct LogWake(Log, usize);

impl Wake for LogWake {
    fn wake(self: Arc<Self>) {
        self.0.lock().unwrap().push(self.1);
    }
}

enum Subject {
    Callback(WallHandle),
    Sleep(WallSleep),
}

/// One callback or sleep as the oracle sees it.
struct Expected {
    at: (Clock, i64),
    /// The place in the order of insertions, while it is pending.
    pending: Option<u64>,
    completed: bool,
}

struct Program {
    wall: WallTimer,
    _timer: Timer,
    clock: ManualClock,
    log: Log,
    subjects: Vec<Subject>,
    expected: Vec<Expected>,
    due: Vec<usize>,
    insertions: u64,
    /// The time by which the clock was advanced, and the readings of both clocks.
    elapsed: i64,
    day: i64,
    suspend: i64,
}

impl Program {
    fn new(executor: Executor) -> Self {
        let clock = ManualClock::new().propagate_panics();
        let timer = Timer::builder().clock(clock.clone()).shards(1).executor(executor).build().unwrap();
        let wall = WallTimer::new(&timer);
        clock.set_time_of_day(day(START));
        let (log, subjects, expected, due) = (Log::default(), Vec::new(), Vec::new(), Vec::new());
        Self {
            wall,
            _timer: timer,
            clock,
            log,
            subjects,
            expected,
            due,
            insertions: 0,
            elapsed: 0,
            day: START,
            suspend: 0,
        }
    }

    fn reading(&self, clock: Clock) -> i64 {
        if clock == Clock::Day { self.day } else { self.suspend }
    }

    fn left(&self, (clock, at): (Clock, i64)) -> i64 {
        at - self.reading(clock)
    }

    /// Returns what is left until the next, its place in the order, and its number.
    fn next(&self) -> Option<(i64, u64, usize)> {
        let pending = self.expected.iter().enumerate();
        pending.filter_map(|(index, one)| Some((self.left(one.at), one.pending?, index))).min()
    }

    fn fire(&mut self) {
        while let Some((.., index)) = self.next().filter(|&(left, ..)| left <= 0) {
            self.expected[index].pending = None;
            self.due.push(index);
        }
    }

    fn elapse(&mut self, by: i64) {
        self.elapsed += by;
        self.day += by;
        self.suspend += by;
    }

    fn insert(&mut self) -> Option<u64> {
        self.insertions += 1;
        Some(self.insertions)
    }

    fn poll(&mut self, index: usize) {
        let waker = Waker::from(Arc::new(LogWake(self.log.clone(), index)));
        let one = &self.expected[index];
        let is_over = one.completed || self.left(one.at) <= 0;
        let Subject::Sleep(sleep) = &mut self.subjects[index] else { return };
        let mut context = Context::from_waker(&waker);
        let mut polled = Pin::new(&mut *sleep).poll(&mut context);
        if is_over && polled.is_pending() {
            // It gives way to other tasks, once.
            assert_eq!(self.log.lock().unwrap().pop(), Some(index));
            polled = Pin::new(sleep).poll(&mut context);
        }
        assert_eq!(polled.is_ready(), is_over);
        if is_over {
            (self.expected[index].pending, self.expected[index].completed) = (None, true);
        } else if self.expected[index].pending.is_none() {
            self.expected[index].pending = self.insert();
        }
    }

    fn run(&mut self, step: &Step) {
        let index = |which: &usize, program: &Self| which.checked_rem(program.subjects.len());
        match step {
            &Step::Schedule(clock, time) => {
                let (log, number) = (self.log.clone(), self.subjects.len());
                let f = move || log.lock().unwrap().push(number);
                let handle = match clock {
                    Clock::Day => self.wall.schedule_at(day(self.day + time), f),
                    Clock::Suspend => self.wall.schedule_after(duration(time), f),
                };
                self.subjects.push(Subject::Callback(handle.unwrap()));
                let (at, pending) = ((clock, self.reading(clock) + time), self.insert());
                self.expected.push(Expected { at, pending, completed: false });
            }
            &Step::Sleep(clock, time) => {
                let sleep = match clock {
                    Clock::Day => self.wall.sleep_until(day(self.day + time)),
                    Clock::Suspend => self.wall.sleep(duration(time)),
                };
                self.subjects.push(Subject::Sleep(sleep));
                let at = (clock, self.reading(clock) + time);
                self.expected.push(Expected { at, pending: None, completed: false });
            }
            Step::Reset(which, clock, time) => {
                let Some(index) = index(which, self) else { return };
                let Subject::Callback(handle) = &self.subjects[index] else { return };
                let was_reset = match clock {
                    Clock::Day => handle.reset_at(day(self.day + time)),
                    Clock::Suspend => handle.reset_after(duration(*time)),
                };
                assert_eq!(was_reset, self.expected[index].pending.is_some());
                if was_reset {
                    self.expected[index].at = (*clock, self.reading(*clock) + time);
                }
            }
            Step::Cancel(which) => {
                let Some(index) = index(which, self) else { return };
                match &mut self.subjects[index] {
                    Subject::Callback(handle) => {
                        assert_eq!(handle.cancel(), self.expected[index].pending.take().is_some());
                    }
                    Subject::Sleep(sleep) => {
                        // The old one is dropped.
                        *sleep = self.wall.sleep(Duration::ZERO);
                        self.expected[index].pending = None;
                        self.expected[index].at = (Clock::Suspend, self.suspend);
                        self.expected[index].completed = false;
                    }
                }
            }
            Step::Poll(which) => index(which, self).into_iter().for_each(|index| self.poll(index)),
            Step::SetTimeOfDay(by) => {
                self.day += by;
                self.clock.set_time_of_day(day(self.day));
            }
            Step::Suspend(by) => {
                self.clock.suspend(duration(*by));
                self.day += by;
                self.suspend += by;
            }
            Step::Advance(by) => {
                self.clock.advance(duration(*by));
                let target = self.elapsed + by;
                loop {
                    self.fire();
                    let tick = self.next().map(|(left, ..)| (self.elapsed + left + TICK - 1) / TICK * TICK);
                    let Some(tick) = tick.filter(|&tick| tick <= target) else { break };
                    self.elapse(tick - self.elapsed);
                }
                self.elapse(target - self.elapsed);
            }
        }
        // What is due runs.
        self.clock.advance(Duration::ZERO);
        self.fire();
    }

    fn check(&mut self, in_order: bool) {
        let mut log = std::mem::take(&mut *self.log.lock().unwrap());
        let mut due = std::mem::take(&mut self.due);
        if !in_order {
            log.sort_unstable();
            due.sort_unstable();
        }
        assert_eq!(log, due);
        assert_eq!(self.wall.now(), day(self.day));
        let pending = self.expected.iter().filter(|one| one.pending.is_some()).count();
        assert_eq!((self.wall.len(), self._timer.len()), (pending, usize::from(pending > 0)));
        for (subject, one) in self.subjects.iter().zip(&self.expected) {
            if let Subject::Callback(handle) = subject {
                assert_eq!(handle.is_pending(), one.pending.is_some());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(
        std::env::var("PROPTEST_CASES").map_or(300, |cases| cases.parse().unwrap())
    ) })]

    /// Promise: wall timers are never early, run exactly once, and in order.
    #[test]
    fn a_wall_timer_matches_a_sorted_list(steps in vec(step(), 1..60), inline: bool) {
        let executor = if inline { Executor::Inline } else { Executor::Pool { threads: 2 } };
        let mut program = Program::new(executor);
        for step in &steps {
            program.run(step);
            program.check(inline);
        }
    }
}
