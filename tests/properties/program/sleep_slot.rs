//! A future, the two tasks that poll it, and what each poll should return.

use std::cell::Cell;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::harness::{Caller, Harness};
use super::oracle::{Deadline, Id, NEVER, Oracle};
use super::task::{Task, wakes_only};
use super::test_future::{Output, TestFuture};

pub struct SleepSlot {
    future: TestFuture,
    deadline: Deadline,
    due: u64,
    tasks: [Arc<Task>; 2],
    /// The task that polled last.
    polled: Option<usize>,
    registration: Registration,
    /// The deadline was set after the shutdown, so that no thread wakes the task for it.
    after_shutdown: bool,
    /// The future has been pending since its deadline was set or since it was ready, and so the next poll does not yield.
    has_waited: bool,
}

#[derive(Clone, Copy)]
enum Registration {
    /// Not polled since the deadline was set.
    Unregistered,
    /// Polled by `task`; `timer` is pending for it.
    Registered { timer: Id, task: usize },
    /// A poll was ready.
    Elapsed,
}

/// At least so many polls are ready at once until one yields. All that could be ready yield then, up to a refill.
const MIN_BUDGET: usize = 100;

thread_local! {
    /// Number of polls on this thread that were ready at once since its budget was full.
    static READY_AT_ONCE: Cell<usize> = const { Cell::new(0) };
    /// Whether the last of them was followed by one that yielded.
    static IS_SPENT: Cell<bool> = const { Cell::new(false) };
}

impl SleepSlot {
    pub fn new(harness: &Arc<Harness>, oracle: &Oracle, future: TestFuture, deadline: Deadline) -> Self {
        let due = oracle.due(deadline);
        let tasks = [(); 2].map(|()| Task::new(harness));
        let registration = Registration::Unregistered;
        let after_shutdown = oracle.is_shut_down;
        Self { future, deadline, due, tasks, polled: None, registration, after_shutdown, has_waited: false }
    }

    pub fn is_interval(&self) -> bool {
        matches!(self.future, TestFuture::Interval { .. })
    }

    /// The pending timer of the future.
    pub fn timer(&self, oracle: &Oracle) -> Option<Id> {
        match self.registration {
            Registration::Registered { timer, .. } if oracle.is_pending(timer) => Some(timer),
            _ => None,
        }
    }

    /// The timer that was registered by the last poll, if `task` polled last. It may have ended since.
    pub fn timer_for(&self, task: &Arc<Task>) -> Option<Id> {
        match self.registration {
            Registration::Registered { timer, task: polled } => Arc::ptr_eq(&self.tasks[polled], task).then_some(timer),
            Registration::Unregistered | Registration::Elapsed => None,
        }
    }

    fn is_elapsed(&self, oracle: &Oracle) -> bool {
        match self.registration {
            Registration::Elapsed => true,
            _ if self.after_shutdown => matches!(self.future, TestFuture::Sleep(_)) && oracle.is_reached(self.due),
            _ if oracle.is_shut_down => true,
            Registration::Unregistered => oracle.is_reached(self.due),
            Registration::Registered { .. } => self.timer(oracle).is_none_or(|timer| oracle.is_due(timer)),
        }
    }

    /// Polls the future. Returns whether it must not be polled again.
    pub fn poll(&mut self, oracle: &mut Oracle, harness: &Harness, task: usize) -> bool {
        let waker = self.tasks[task].waker();
        let poll = || self.future.poll(&mut Context::from_waker(&waker));
        let (polled, woken) = wakes_only(Some(&self.tasks[task]), poll);
        self.polled = Some(task);
        if self.future.inner_is_ready() {
            // The inner future goes first, whatever the deadline is.
            assert_eq!((polled, woken), (Poll::Ready(Output::Completed), false));
            return true;
        }
        let yielded = self.yields(oracle, polled.is_ready());
        let ready = self.is_elapsed(oracle) && !yielded;
        assert_eq!((polled.is_ready(), woken), (ready, yielded), "the future with the timer {:?}", self.timer(oracle));
        self.has_waited = !ready;
        if ready && let Some(timer) = self.timer(oracle) {
            // The deadline has passed, and the driver has not fired the timer yet.
            oracle.complete(timer);
        }
        self.registration = match self.registration {
            _ if ready => Registration::Elapsed,
            Registration::Registered { timer, .. } => Registration::Registered { timer, task },
            Registration::Unregistered | Registration::Elapsed if yielded || self.after_shutdown => self.registration,
            Registration::Unregistered | Registration::Elapsed => {
                Registration::Registered { timer: oracle.sleep(self.deadline, self.due), task }
            }
        };
        match polled {
            Poll::Ready(output) => self.complete(oracle, harness, output),
            Poll::Pending => false,
        }
    }

    /// Whether a poll is pending once although the future is elapsed.
    fn yields(&self, oracle: &Oracle, ready: bool) -> bool {
        if !self.is_elapsed(oracle) || self.has_waited {
            return false;
        }
        if ready {
            let spent = if IS_SPENT.get() { 0 } else { READY_AT_ONCE.get() };
            READY_AT_ONCE.set(spent + 1);
        } else {
            assert!(READY_AT_ONCE.get() >= MIN_BUDGET, "a poll yields although the budget is not used up");
        }
        IS_SPENT.set(!ready);
        !ready
    }

    /// Checks the output of a poll. Returns whether the future must not be polled again.
    fn complete(&mut self, oracle: &Oracle, harness: &Harness, output: Output) -> bool {
        let is_reached = oracle.is_reached(self.due);
        match (&self.future, output) {
            (TestFuture::Sleep(_), Output::Slept { by_shutdown }) => {
                assert!(if by_shutdown { oracle.is_shut_down && !self.after_shutdown } else { is_reached });
                false
            }
            (TestFuture::Timeout(_), Output::Elapsed { by_shutdown }) => {
                assert!(if by_shutdown { oracle.is_shut_down } else { is_reached });
                true
            }
            (TestFuture::Interval { period, missed, .. }, Output::Tick(tick)) => {
                let due = self.deadline.expect("an interval has a deadline");
                assert_eq!(tick, harness.instant(due));
                let next = missed.next(due, oracle.now, *period);
                self.set(oracle, next);
                self.begin_anew(oracle);
                false
            }
            (_, output) => panic!("{output:?} of another kind of future"),
        }
    }

    fn set(&mut self, oracle: &Oracle, deadline: Duration) {
        self.deadline = Some(deadline);
        self.due = oracle.due(self.deadline);
    }

    /// Resets a sleep to `deadline`, and an interval to a period from now.
    pub fn reset(&mut self, oracle: &mut Oracle, harness: &Harness, deadline: Deadline) {
        let deadline = match &mut self.future {
            TestFuture::Sleep(sleep) => {
                let Some(deadline) = deadline else { return };
                std::pin::Pin::new(sleep).reset(harness.instant(deadline));
                deadline
            }
            TestFuture::Interval { interval, period, .. } => {
                interval.reset();
                oracle.now + *period
            }
            TestFuture::Timeout(_) => return,
        };
        self.set(oracle, deadline);
        match self.timer(oracle) {
            Some(timer) => {
                assert!(oracle.reset(timer, Some(deadline)));
                self.has_waited &= !oracle.is_due(timer);
            }
            None => self.begin_anew(oracle),
        }
    }

    /// The next poll registers the timer, as no timer is pending.
    fn begin_anew(&mut self, oracle: &Oracle) {
        self.registration = Registration::Unregistered;
        self.after_shutdown = oracle.is_shut_down;
        self.has_waited = false;
    }

    /// Completes the inner future of a timeout, which wakes the task that polled last.
    pub fn complete_inner(&mut self) {
        if !matches!(self.future, TestFuture::Timeout(_)) {
            return;
        }
        let task = self.polled.filter(|_| !self.future.inner_is_ready()).map(|task| &self.tasks[task]);
        let ((), woken) = wakes_only(task, || self.future.complete_inner());
        assert_eq!(woken, task.is_some(), "whether the task that polled last was woken");
    }

    /// Drops the future, and checks that it has dropped its wakers. Beside callbacks the wakers may still be in use.
    pub fn clear(self, oracle: &mut Oracle, caller: Caller) {
        if let Some(timer) = self.timer(oracle) {
            oracle.cancel(timer);
        }
        self.future.end();
        assert!(caller != Caller::Program || self.tasks.iter().all(|task| Arc::strong_count(task) == 1));
    }

    pub fn check(&self, oracle: &Oracle, harness: &Harness) {
        match &self.future {
            TestFuture::Sleep(sleep) => {
                assert_eq!(sleep.is_elapsed(), self.is_elapsed(oracle));
                assert!(oracle.is_shut_down || !sleep.is_shutdown());
                match self.deadline {
                    Some(deadline) => assert_eq!(sleep.deadline(), harness.instant(deadline)),
                    None => harness.assert_displayed(oracle, sleep.deadline(), NEVER, None),
                }
            }
            TestFuture::Interval { interval, period, missed } => {
                assert_eq!(interval.is_shutdown(), oracle.is_shut_down);
                assert_eq!((interval.period(), interval.missed_tick_behavior()), (*period, missed.behavior()));
            }
            TestFuture::Timeout(_) => {}
        }
    }
}
