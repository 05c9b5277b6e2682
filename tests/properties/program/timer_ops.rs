//! Operations on callbacks and their handles.

use std::sync::Arc;
use std::time::{Duration, Instant};

use corewheel::{ScheduleError, ScheduleErrorKind, TimerHandle};

use super::callback::Callback;
use super::grammar::{HandleOp, HandleRef, Schedule, Script, Span, When};
use super::harness::{Caller, HANDLE_SLOTS, Harness, HarnessState};
use super::oracle::{Deadline, Id, Kind, Oracle, Refusal};

/// A deadline as it is passed to the timer.
pub enum DeadlineArg {
    Delay(Duration),
    Instant(Instant),
}

impl Harness {
    pub fn deadline_arg(&self, when: When) -> (DeadlineArg, Deadline) {
        let now = self.now();
        let (time, as_instant) = match when {
            When::After(span) => (span.length(self.tick).map(|delay| now + delay), false),
            When::At(span) => (span.length(self.tick).map(|delay| now + delay), true),
            When::Ago(span) => (Some(now.saturating_sub(span.length(self.tick).unwrap_or(now))), true),
        };
        let arg = match time {
            None => DeadlineArg::Delay(Duration::MAX),
            Some(time) if as_instant => DeadlineArg::Instant(self.instant(time)),
            Some(time) => DeadlineArg::Delay(time - now),
        };
        (arg, time)
    }

    pub fn schedule(self: &Arc<Self>, state: &mut HarnessState, caller: Caller, slot: u8, when: When, script: Script) {
        let Some(timer) = state.timer.clone() else { return };
        let (arg, deadline) = self.deadline_arg(when);
        self.start(state, caller, Some(slot), Kind::Once, deadline, false, |id| {
            let callback = Callback::new(self, id, script);
            let f = move || callback.once();
            match arg {
                DeadlineArg::Delay(delay) => as_refusal(timer.schedule(delay, f)),
                DeadlineArg::Instant(deadline) => as_refusal(timer.schedule_at(deadline, f)),
            }
        });
    }

    #[allow(clippy::too_many_arguments, reason = "they are the fields of an action")]
    pub fn repeat(
        self: &Arc<Self>,
        state: &mut HarnessState,
        caller: Caller,
        slot: u8,
        first: Span,
        schedule: Schedule,
        script: Script,
        runs: u8,
    ) {
        let Some(timer) = state.timer.clone() else { return };
        let delay = first.length(self.tick);
        let deadline = delay.map(|delay| self.now() + delay);
        let delay = delay.unwrap_or(Duration::MAX);
        let span = |span: Span| span.length(self.tick).unwrap_or(Duration::MAX);
        let zero_period = matches!(schedule, Schedule::FixedRate(period) if span(period).is_zero());
        if deadline.is_none() && matches!(schedule, Schedule::Recurring(_)) {
            return;
        }
        self.start(state, caller, Some(slot), Kind::Repeating, deadline, zero_period, |id| {
            let callback = Callback::new(self, id, script);
            let mut left = 1 + runs % 6;
            match schedule {
                Schedule::FixedRate(period) => {
                    let f = move || _ = callback.again(schedule, &mut left, None);
                    as_refusal(timer.schedule_at_fixed_rate(delay, span(period), f))
                }
                Schedule::FixedDelay(pause) => {
                    let f = move || _ = callback.again(schedule, &mut left, None);
                    as_refusal(timer.schedule_with_fixed_delay(delay, span(pause), f))
                }
                Schedule::Recurring(_) => {
                    let f = move |deadline| callback.again(schedule, &mut left, Some(deadline));
                    as_refusal(timer.schedule_recurring(timer.now() + delay, f))
                }
            }
        });
    }

    pub fn schedule_many(
        self: &Arc<Self>,
        state: &mut HarnessState,
        caller: Caller,
        count: u8,
        first: Span,
        spacing: u8,
    ) {
        let Some(timer) = state.timer.clone() else { return };
        for index in 0..2 * u32::from(count) {
            // A callback that is about to run may have released its permit already.
            if !self.may_start(state, caller) || state.oracle.has_limit() && state.oracle.is_anything_due() {
                break;
            }
            let delay = first.length(self.tick).map(|first| first + self.tick * u32::from(spacing) * index);
            let deadline = delay.map(|delay| self.now() + delay);
            self.start(state, caller, None, Kind::Once, deadline, false, |id| {
                let callback = Callback::new(self, id, Script(0));
                as_refusal(timer.schedule(delay.unwrap_or(Duration::MAX), move || callback.once()))
            });
        }
    }

    /// Whether there are not too many timers, and whether the outcome is known: a callback that is about to start may have
    /// released its permit already.
    fn may_start(&self, state: &HarnessState, caller: Caller) -> bool {
        let may_have_permit = caller == Caller::OtherTimer && state.oracle.has_limit() && state.oracle.is_busy();
        self.has_room(state) && !may_have_permit
    }

    /// Schedules a timer and keeps its handle if `slot` says so. Does nothing if it [may not](Self::may_start).
    #[allow(clippy::too_many_arguments, reason = "they are the properties of a timer")]
    fn start(
        &self,
        state: &mut HarnessState,
        caller: Caller,
        slot: Option<u8>,
        kind: Kind,
        deadline: Deadline,
        zero_period: bool,
        schedule: impl FnOnce(Id) -> Result<TimerHandle, Refusal>,
    ) {
        if !self.may_start(state, caller) {
            return;
        }
        let (id, mut refusal) = state.oracle.schedule(kind, deadline, zero_period);
        let scheduled = schedule(id);
        let refused = scheduled.as_ref().err().copied();
        if refused == Some(Refusal::OutOfMemory) && refusal.is_none() && self.is_short_of_memory() {
            state.oracle.refuse_for_memory(id);
            refusal = refused;
        }
        assert_eq!(refused, refusal, "timer {id}");
        match scheduled {
            Ok(handle) => {
                self.check(state, id, &handle, Caller::Program);
                if let Some(slot) = slot {
                    state.handles[usize::from(slot) % HANDLE_SLOTS] = Some((id, handle));
                }
            }
            Err(_) => assert!(self.was_dropped(id)),
        }
    }

    pub fn handle_op(&self, state: &mut HarnessState, caller: Caller, which: HandleRef, op: HandleOp) {
        let slot = match which {
            HandleRef::Slot(slot) => Some(usize::from(slot) % HANDLE_SLOTS),
            HandleRef::Own => match caller {
                Caller::Callback(own) => state.handles.iter().position(|slot| is_of(slot, own)),
                Caller::Program | Caller::OtherTimer => None,
            },
        };
        let Some(slot) = slot else { return };
        let Some((id, handle)) = state.handles[slot]
            .take_if(|(id, _)| matches!(op, HandleOp::Drop) || !self.may_be_running(&state.oracle, caller, *id))
        else {
            return;
        };
        match op {
            HandleOp::Cancel => {
                let cancelled = handle.cancel();
                self.check_cancel(state, id, cancelled);
            }
            HandleOp::CancelAndWait => {
                let cancelled = handle.cancel_and_wait();
                self.check_cancel(state, id, cancelled);
            }
            HandleOp::CancelOnDrop => {
                let pending = handle.is_pending();
                drop(handle.cancel_on_drop());
                return self.check_cancel(state, id, pending);
            }
            HandleOp::Reset(when) => {
                let (arg, deadline) = self.deadline_arg(when);
                let reset = match arg {
                    DeadlineArg::Delay(delay) => handle.reset(delay),
                    DeadlineArg::Instant(deadline) => handle.reset_at(deadline),
                };
                assert_eq!(reset, state.oracle.reset(id, deadline), "timer {id}");
            }
            HandleOp::Check => {}
            HandleOp::Drop => return,
        }
        self.check(state, id, &handle, caller);
        state.handles[slot] = Some((id, handle));
    }

    /// A cancel that succeeds drops the closure, unless it is running.
    fn check_cancel(&self, state: &mut HarnessState, id: Id, cancelled: bool) {
        let running = state.oracle.is_running(id);
        assert_eq!(cancelled, state.oracle.cancel(id), "timer {id}");
        assert!(!cancelled || running || self.was_dropped(id), "timer {id}");
    }

    pub fn check(&self, state: &HarnessState, id: Id, handle: &TimerHandle, caller: Caller) {
        let oracle = &state.oracle;
        if self.may_be_running(oracle, caller, id) {
            return;
        }
        assert_eq!(handle.is_pending(), oracle.is_pending(id), "timer {id}");
        assert_eq!(handle.deadline().is_some(), oracle.is_pending(id), "timer {id}");
        if let Some(displayed) = handle.deadline() {
            self.assert_displayed(oracle, displayed, oracle.timers[id].due, oracle.displayed_deadline(id));
        }
    }

    /// Whether the timer may be running at this moment.
    fn may_be_running(&self, oracle: &Oracle, caller: Caller, id: Id) -> bool {
        match caller {
            Caller::Program => oracle.is_due(id),
            Caller::Callback(own) if own == id || self.callbacks_are_serial => false,
            Caller::Callback(_) | Caller::OtherTimer => oracle.is_due(id) || oracle.ran_now(id),
        }
    }
}

fn is_of(slot: &Option<(Id, TimerHandle)>, own: Id) -> bool {
    slot.as_ref().is_some_and(|&(id, _)| id == own)
}

fn as_refusal<F>(scheduled: Result<TimerHandle, ScheduleError<F>>) -> Result<TimerHandle, Refusal> {
    scheduled.map_err(|error| match error.kind() {
        ScheduleErrorKind::ZeroPeriod => Refusal::ZeroPeriod,
        ScheduleErrorKind::Shutdown => Refusal::Shutdown,
        ScheduleErrorKind::Full => Refusal::Full,
        ScheduleErrorKind::OutOfMemory => Refusal::OutOfMemory,
        _ => panic!("{error}"),
    })
}
