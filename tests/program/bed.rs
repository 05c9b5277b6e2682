//! A future, and two tasks that poll it; and what each poll should return.

use std::cell::Cell;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::awaited::{Awaited, Output};
use super::oracle::{Deadline, Id, NEVER, Oracle};
use super::stage::{Actor, Stage};
use super::task::{Task, wakes_none_but};

pub struct Bed {
    awaited: Awaited,
    deadline: Deadline,
    due: u64,
    tasks: [Arc<Task>; 2],
    /// The task that polled last.
    polled: Option<usize>,
    sleeper: Sleeper,
    turn: Turn,
}

#[derive(Clone, Copy)]
enum Sleeper {
    /// Not polled since the deadline was set.
    Awake,
    /// Polled by a task for which this timer runs.
    Asleep { timer: Id, task: usize },
    /// Seen to be ready.
    Up,
}

/// Whether the next poll may be ready without having been pending.
#[derive(Clone, Copy)]
enum Turn {
    /// Yes, but once in a while.
    Fresh,
    /// No: it was set after the shutdown.
    Owed,
    /// It has been pending.
    Waited,
}

/// As many polls are ready at once, at the least, for one that is put off.
const PUT_OFF_RARELY: usize = 100;

thread_local! {
    /// How often a poll on this thread was ready at once since the last that was put off.
    static AT_ONCE: Cell<usize> = const { Cell::new(0) };
}

impl Bed {
    pub fn new(stage: &Arc<Stage>, oracle: &Oracle, awaited: Awaited, deadline: Deadline) -> Self {
        let (due, turn) = (oracle.due(deadline), Turn::set(oracle));
        let tasks = [(); 2].map(|()| Task::new(stage));
        Self { awaited, deadline, due, tasks, polled: None, sleeper: Sleeper::Awake, turn }
    }

    /// The timer that runs for it.
    pub fn timer(&self, oracle: &Oracle) -> Option<Id> {
        match self.sleeper {
            Sleeper::Asleep { timer, .. } if oracle.is_pending(timer) => Some(timer),
            _ => None,
        }
    }

    /// The timer that runs for it since this task has polled, whatever became of the timer.
    pub fn asleep_for(&self, task: &Arc<Task>) -> Option<Id> {
        match self.sleeper {
            Sleeper::Asleep { timer, task: polled } => Arc::ptr_eq(&self.tasks[polled], task).then_some(timer),
            Sleeper::Awake | Sleeper::Up => None,
        }
    }

    fn is_elapsed(&self, oracle: &Oracle) -> bool {
        let elapsed = match self.sleeper {
            Sleeper::Awake => oracle.has_come(self.due),
            Sleeper::Asleep { .. } => self.timer(oracle).is_none_or(|timer| oracle.is_due(timer)),
            Sleeper::Up => true,
        };
        elapsed || oracle.is_shut_down
    }

    /// Polls it. Returns whether it is not to be polled any more.
    pub fn poll(&mut self, oracle: &mut Oracle, stage: &Stage, task: usize) -> bool {
        let waker = self.tasks[task].waker();
        let poll = || self.awaited.poll(&mut Context::from_waker(&waker));
        let (polled, woken) = wakes_none_but(Some(&self.tasks[task]), poll);
        self.polled = Some(task);
        if self.awaited.is_answered() {
            // Whatever the deadline is: the other future goes first.
            assert_eq!((polled, woken), (Poll::Ready(Output::Answered), false));
            return true;
        }
        let put_off = self.is_put_off(oracle, polled.is_ready());
        let ready = self.is_elapsed(oracle) && !put_off;
        assert_eq!((polled.is_ready(), woken), (ready, put_off), "the future of {:?}", self.timer(oracle));
        self.turn = if ready { Turn::Fresh } else { Turn::Waited };
        if ready && let Some(timer) = self.timer(oracle) {
            // Its time has come, and the driver's turn has not.
            oracle.complete(timer);
        }
        self.sleeper = match self.sleeper {
            _ if ready => Sleeper::Up,
            Sleeper::Asleep { timer, .. } => Sleeper::Asleep { timer, task },
            Sleeper::Awake | Sleeper::Up if put_off => self.sleeper,
            Sleeper::Awake | Sleeper::Up => Sleeper::Asleep { timer: oracle.sleep(self.deadline, self.due), task },
        };
        match polled {
            Poll::Ready(output) => self.complete(oracle, stage, output),
            Poll::Pending => false,
        }
    }

    /// Whether a poll is pending once though it could be ready.
    fn is_put_off(&self, oracle: &Oracle, ready: bool) -> bool {
        self.is_elapsed(oracle)
            && match self.turn {
                Turn::Fresh if ready => {
                    AT_ONCE.set(AT_ONCE.get() + 1);
                    false
                }
                Turn::Fresh => {
                    assert!(AT_ONCE.replace(0) >= PUT_OFF_RARELY, "put off too often");
                    true
                }
                Turn::Owed => true,
                Turn::Waited => false,
            }
    }

    /// A poll was ready. Returns whether that was the last.
    fn complete(&mut self, oracle: &Oracle, stage: &Stage, output: Output) -> bool {
        let has_come = oracle.has_come(self.due);
        match (&self.awaited, output) {
            (Awaited::Sleep(_), Output::Slept { by_shutdown }) => {
                assert!(if by_shutdown { oracle.is_shut_down } else { has_come });
                false
            }
            (Awaited::Timeout(_), Output::Elapsed { by_shutdown }) => {
                assert!(if by_shutdown { oracle.is_shut_down } else { has_come });
                true
            }
            (Awaited::Interval { period, missed, .. }, Output::Tick(tick)) => {
                let due = self.deadline.expect("an interval ticks at some time");
                assert_eq!(tick, stage.instant(due));
                let next = missed.next(due, oracle.now, *period);
                self.set(oracle, next);
                (self.sleeper, self.turn) = (Sleeper::Awake, Turn::set(oracle));
                false
            }
            (_, output) => panic!("{output:?} of another kind of future"),
        }
    }

    fn set(&mut self, oracle: &Oracle, deadline: Duration) {
        (self.deadline, self.due) = (Some(deadline), oracle.due(Some(deadline)));
    }

    /// Moves the deadline: a sleep's to `deadline`, and an interval's to a period from now.
    pub fn reset(&mut self, oracle: &mut Oracle, stage: &Stage, deadline: Deadline) {
        let deadline = match &mut self.awaited {
            Awaited::Sleep(sleep) => {
                let Some(deadline) = deadline else { return };
                std::pin::Pin::new(sleep).reset(stage.instant(deadline));
                deadline
            }
            Awaited::Interval { interval, period, .. } => {
                interval.reset();
                oracle.now + *period
            }
            Awaited::Timeout(_) => return,
        };
        self.set(oracle, deadline);
        match self.timer(oracle) {
            Some(timer) => {
                assert!(oracle.reset(timer, Some(deadline)));
                if oracle.is_due(timer) {
                    self.turn = Turn::Fresh;
                }
            }
            None => (self.sleeper, self.turn) = (Sleeper::Awake, Turn::set(oracle)),
        }
    }

    /// Makes ready what a timeout waits for: that wakes the task that polled last.
    pub fn answer(&mut self) {
        if !matches!(self.awaited, Awaited::Timeout(_)) {
            return;
        }
        let task = self.polled.filter(|_| !self.awaited.is_answered()).map(|task| &self.tasks[task]);
        let ((), woken) = wakes_none_but(task, || self.awaited.answer());
        assert_eq!(woken, task.is_some(), "the task that waits for the answer is woken");
    }

    /// Drops the future, and looks whether it has let go of the wakers; beside callbacks they may be in use.
    pub fn clear(self, oracle: &mut Oracle, actor: Actor) {
        if let Some(timer) = self.timer(oracle) {
            oracle.cancel(timer);
        }
        self.awaited.end();
        assert!(actor != Actor::Program || self.tasks.iter().all(|task| Arc::strong_count(task) == 1));
    }

    pub fn check(&self, oracle: &Oracle, stage: &Stage) {
        match &self.awaited {
            Awaited::Sleep(sleep) => {
                assert_eq!(sleep.is_elapsed(), self.is_elapsed(oracle));
                assert!(oracle.is_shut_down || !sleep.is_shutdown());
                match self.deadline {
                    Some(deadline) => assert_eq!(sleep.deadline(), stage.instant(deadline)),
                    None => stage.assert_shown(oracle, sleep.deadline(), NEVER, None),
                }
            }
            Awaited::Interval { interval, period, missed } => {
                assert_eq!(interval.is_shutdown(), oracle.is_shut_down);
                assert_eq!((interval.period(), interval.missed_tick_behavior()), (*period, missed.behavior()));
            }
            Awaited::Timeout(_) => {}
        }
    }
}

impl Turn {
    fn set(oracle: &Oracle) -> Self {
        if oracle.is_shut_down { Self::Owed } else { Self::Fresh }
    }
}
