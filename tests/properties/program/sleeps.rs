//! Operations on futures.

use std::sync::Arc;
use std::time::Duration;

use super::grammar::{FutureKind, SleepOp, Span, When};
use super::harness::{Caller, Harness, HarnessState, SLEEP_SLOTS};
use super::oracle::{Deadline, Oracle};
use super::sleep_slot::SleepSlot;
use super::task::Task;
use super::test_future::{ManualFuture, TestFuture};
use super::timer_ops::DeadlineArg;

/// The longest period of an interval, so that an `Instant` can hold thousands of periods.
const MAX_PERIOD: Duration = Duration::from_secs(1 << 50);

impl Harness {
    pub fn sleep_op(self: &Arc<Self>, state: &mut HarnessState, caller: Caller, index: u8, op: SleepOp) {
        let HarnessState { sleeps, oracle, timer, .. } = state;
        let slot = &mut sleeps[usize::from(index) % SLEEP_SLOTS];
        if slot.as_ref().is_some_and(|sleep| self.may_be_woken_now(sleep, oracle, caller)) {
            return;
        }
        // A future that gets no memory would abort the process.
        let needs_memory = matches!(op, SleepOp::Create { .. } | SleepOp::Poll { .. } | SleepOp::Reset(_));
        if needs_memory && self.is_short_of_memory() {
            return;
        }
        match (op, &mut *slot) {
            (SleepOp::Create { kind, when }, _) => {
                let Some(timer) = timer else { return };
                let (future, deadline) = self.create(timer, kind, when);
                let previous = slot.replace(SleepSlot::new(self, oracle, future, deadline));
                if let Some(sleep) = previous {
                    sleep.clear(oracle, caller);
                }
            }
            (SleepOp::Poll { second }, Some(sleep)) => {
                if sleep.poll(oracle, self, second.into()) {
                    slot.take().unwrap().clear(oracle, caller);
                }
            }
            (SleepOp::Reset(when), Some(sleep)) => sleep.reset(oracle, self, self.deadline_arg(when).1),
            (SleepOp::CompleteInner, Some(sleep)) => sleep.complete_inner(),
            (SleepOp::Drop, Some(_)) => slot.take().unwrap().clear(oracle, caller),
            (_, None) => {}
        }
        if let Some(sleep) = slot {
            self.check_sleep(sleep, oracle, caller);
        }
    }

    /// Creates a future. Returns it and its deadline.
    fn create(&self, timer: &corewheel::Timer, kind: FutureKind, when: When) -> (TestFuture, Deadline) {
        let (arg, deadline) = self.deadline_arg(when);
        match kind {
            FutureKind::Sleep => {
                let sleep = match arg {
                    DeadlineArg::Delay(delay) => timer.sleep(delay),
                    DeadlineArg::Instant(deadline) => timer.sleep_until(deadline),
                };
                (TestFuture::Sleep(sleep), deadline)
            }
            FutureKind::Timeout { ready } => {
                let timeout = match arg {
                    DeadlineArg::Delay(delay) => timer.timeout(delay, ManualFuture::new(ready)),
                    DeadlineArg::Instant(deadline) => timer.timeout_at(deadline, ManualFuture::new(ready)),
                };
                (TestFuture::Timeout(timeout), deadline)
            }
            FutureKind::Interval { period, missed } => {
                let period = self.period(period);
                let (interval, first) = match arg {
                    DeadlineArg::Delay(_) => (timer.interval(period), Some(self.now())),
                    DeadlineArg::Instant(start) => (timer.interval_at(start, period), deadline),
                };
                (TestFuture::interval(interval, period, missed), first)
            }
        }
    }

    /// Turns a span into a period that an interval accepts.
    fn period(&self, span: Span) -> Duration {
        let period = span.length(self.tick).unwrap_or(MAX_PERIOD).min(MAX_PERIOD);
        if period.is_zero() { self.tick } else { period }
    }

    pub fn clear_sleeps(&self) {
        let mut state = self.lock();
        let HarnessState { sleeps, oracle, .. } = &mut *state;
        sleeps.iter_mut().filter_map(Option::take).for_each(|sleep| sleep.clear(oracle, Caller::Program));
    }

    /// Drops all intervals, or none if the waker of one may be called at this moment. Returns whether none is left.
    pub fn drop_intervals(&self, state: &mut HarnessState, caller: Caller) -> bool {
        let HarnessState { sleeps, oracle, .. } = state;
        let may_go = |sleep: &SleepSlot| !sleep.is_interval() || !self.may_be_woken_now(sleep, oracle, caller);
        let may_all_go = sleeps.iter().flatten().all(may_go);
        for slot in sleeps.iter_mut().filter(|_| may_all_go) {
            if let Some(interval) = slot.take_if(|sleep| sleep.is_interval()) {
                interval.clear(oracle, caller);
            }
        }
        may_all_go
    }

    pub fn check_sleep(&self, sleep: &SleepSlot, oracle: &Oracle, caller: Caller) {
        if !self.may_be_woken_now(sleep, oracle, caller) {
            sleep.check(oracle, self);
        }
    }

    /// Whether the future's waker may be called at this moment.
    fn may_be_woken_now(&self, sleep: &SleepSlot, oracle: &Oracle, caller: Caller) -> bool {
        let alone = matches!(caller, Caller::Callback(_)) && self.everything_is_serial;
        !alone && sleep.timer(oracle).is_some_and(|timer| oracle.is_due(timer))
    }

    /// Records that a timer woke `task`. It must be the task that polled last, and the deadline must have passed.
    pub fn on_wake(&self, task: &Arc<Task>) {
        let mut state = self.lock();
        let by_shutdown = state.is_closing_here();
        let HarnessState { sleeps, oracle, .. } = &mut *state;
        let timer = sleeps.iter().flatten().find_map(|sleep| sleep.timer_for(task));
        let timer = timer.expect("only the task that polled last is woken");
        if by_shutdown {
            oracle.complete(timer);
        } else {
            oracle.start(timer);
        }
    }
}
