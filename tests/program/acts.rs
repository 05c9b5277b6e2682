//! What is done with callbacks and their handles.

use std::sync::Arc;
use std::time::{Duration, Instant};

use corewheel::{ScheduleError, TimerHandle};

use super::callback::Callback;
use super::language::{Rule, Script, Span, Touch, When, Whose};
use super::oracle::{Deadline, Id, Kind, Oracle, Refusal};
use super::stage::{Actor, SLOTS, Stage, World};

/// How the timer is told a deadline.
pub enum Told {
    Delay(Duration),
    Deadline(Instant),
}

impl Stage {
    pub fn tell(&self, when: When) -> (Told, Deadline) {
        let now = self.now();
        let (time, as_instant) = match when {
            When::After(span) => (span.length(self.tick).map(|delay| now + delay), false),
            When::At(span) => (span.length(self.tick).map(|delay| now + delay), true),
            When::Ago(span) => (Some(now.saturating_sub(span.length(self.tick).unwrap_or(now))), true),
        };
        let told = match time {
            None => Told::Delay(Duration::MAX),
            Some(time) if as_instant => Told::Deadline(self.instant(time)),
            Some(time) => Told::Delay(time - now),
        };
        (told, time)
    }

    pub fn schedule(self: &Arc<Self>, world: &mut World, actor: Actor, slot: u8, when: When, script: Script) {
        let Some(timer) = world.timer.clone() else { return };
        let (told, deadline) = self.tell(when);
        self.start(world, actor, Some(slot), Kind::Once, deadline, false, |id| {
            let callback = Callback::new(self, id, script);
            let f = move || callback.once();
            match told {
                Told::Delay(delay) => why_not(timer.schedule(delay, f)),
                Told::Deadline(deadline) => why_not(timer.schedule_at(deadline, f)),
            }
        });
    }

    #[allow(clippy::too_many_arguments, reason = "they are the fields of an action")]
    pub fn repeat(
        self: &Arc<Self>,
        world: &mut World,
        actor: Actor,
        slot: u8,
        first: Span,
        rule: Rule,
        script: Script,
        runs: u8,
    ) {
        let Some(timer) = world.timer.clone() else { return };
        let delay = first.length(self.tick);
        let deadline = delay.map(|delay| self.now() + delay);
        let delay = delay.unwrap_or(Duration::MAX);
        let span = |span: Span| span.length(self.tick).unwrap_or(Duration::MAX);
        let zero_period = matches!(rule, Rule::FixedRate(period) if span(period).is_zero());
        if deadline.is_none() && matches!(rule, Rule::Recurring(_)) {
            return;
        }
        self.start(world, actor, Some(slot), Kind::Repeating, deadline, zero_period, |id| {
            let callback = Callback::new(self, id, script);
            let mut left = 1 + runs % 6;
            match rule {
                Rule::FixedRate(period) => {
                    let f = move || _ = callback.again(rule, &mut left, None);
                    why_not(timer.schedule_at_fixed_rate(delay, span(period), f))
                }
                Rule::FixedDelay(pause) => {
                    let f = move || _ = callback.again(rule, &mut left, None);
                    why_not(timer.schedule_with_fixed_delay(delay, span(pause), f))
                }
                Rule::Recurring(_) => {
                    let f = move |deadline| callback.again(rule, &mut left, Some(deadline));
                    why_not(timer.schedule_recurring(timer.now() + delay, f))
                }
            }
        });
    }

    pub fn gather(self: &Arc<Self>, world: &mut World, actor: Actor, number: u8, first: Span, apart: u8) {
        let Some(timer) = world.timer.clone() else { return };
        for index in 0..2 * u32::from(number) {
            // Who is due may have left his place already.
            if world.oracle.has_limit() && world.oracle.is_anything_due() {
                break;
            }
            let delay = first.length(self.tick).map(|first| first + self.tick * u32::from(apart) * index);
            let deadline = delay.map(|delay| self.now() + delay);
            self.start(world, actor, None, Kind::Once, deadline, false, |id| {
                let callback = Callback::new(self, id, Script(0));
                why_not(timer.schedule(delay.unwrap_or(Duration::MAX), move || callback.once()))
            });
        }
    }

    /// Schedules a timer, unless there are too many, and keeps its handle if there is a slot for it.
    #[allow(clippy::too_many_arguments, reason = "they are what timers differ in")]
    fn start(
        &self,
        world: &mut World,
        actor: Actor,
        slot: Option<u8>,
        kind: Kind,
        deadline: Deadline,
        zero_period: bool,
        schedule: impl FnOnce(Id) -> Result<TimerHandle, Refusal>,
    ) {
        // A callback that is about to start may have left its place already.
        let is_open = actor == Actor::OtherTimer && world.oracle.has_limit() && world.oracle.is_busy();
        if !self.has_room(world) || is_open {
            return;
        }
        let (id, mut refusal) = world.oracle.schedule(kind, deadline, zero_period);
        let scheduled = schedule(id);
        let refused = scheduled.as_ref().err().copied();
        if refused == Some(Refusal::OutOfMemory) && refusal.is_none() && self.is_short_of_memory() {
            world.oracle.lacks_memory(id);
            refusal = refused;
        }
        assert_eq!(refused, refusal, "timer {id}");
        match scheduled {
            Ok(handle) => {
                self.check(world, id, &handle, Actor::Program);
                if let Some(slot) = slot {
                    world.slots[usize::from(slot) % SLOTS] = Some((id, handle));
                }
            }
            Err(_) => assert!(self.was_dropped(id)),
        }
    }

    pub fn touch(&self, world: &mut World, actor: Actor, whose: Whose, touch: Touch) {
        let slot = match whose {
            Whose::Slot(slot) => Some(usize::from(slot) % SLOTS),
            Whose::Own => match actor {
                Actor::Callback(own) => world.slots.iter().position(|slot| is_of(slot, own)),
                Actor::Program | Actor::OtherTimer => None,
            },
        };
        let Some(slot) = slot else { return };
        let Some((id, handle)) = world.slots[slot]
            .take_if(|(id, _)| matches!(touch, Touch::Drop) || !self.may_be_up_beside(&world.oracle, actor, *id))
        else {
            return;
        };
        match touch {
            Touch::Cancel => {
                let cancelled = handle.cancel();
                self.check_cancel(world, id, cancelled);
            }
            Touch::CancelAndWait => {
                let cancelled = handle.cancel_and_wait();
                self.check_cancel(world, id, cancelled);
            }
            Touch::CancelOnDrop => {
                let pending = handle.is_pending();
                drop(handle.cancel_on_drop());
                return self.check_cancel(world, id, pending);
            }
            Touch::Reset(when) => {
                let (told, deadline) = self.tell(when);
                let reset = match told {
                    Told::Delay(delay) => handle.reset(delay),
                    Told::Deadline(deadline) => handle.reset_at(deadline),
                };
                assert_eq!(reset, world.oracle.reset(id, deadline), "timer {id}");
            }
            Touch::Look => {}
            Touch::Drop => return,
        }
        self.check(world, id, &handle, actor);
        world.slots[slot] = Some((id, handle));
    }

    /// The closure goes with the timer, unless it is running.
    fn check_cancel(&self, world: &mut World, id: Id, cancelled: bool) {
        let running = world.oracle.is_running(id);
        assert_eq!(cancelled, world.oracle.cancel(id), "timer {id}");
        assert!(!cancelled || running || self.was_dropped(id), "timer {id}");
    }

    pub fn check(&self, world: &World, id: Id, handle: &TimerHandle, actor: Actor) {
        let oracle = &world.oracle;
        if self.may_be_up_beside(oracle, actor, id) {
            return;
        }
        assert_eq!(handle.is_pending(), oracle.is_pending(id), "timer {id}");
        assert_eq!(handle.deadline().is_some(), oracle.is_pending(id), "timer {id}");
        if let Some(shown) = handle.deadline() {
            self.assert_shown(oracle, shown, oracle.timers[id].due, oracle.shown(id));
        }
    }

    /// Whether the timer may be running at this very moment.
    fn may_be_up_beside(&self, oracle: &Oracle, actor: Actor, id: Id) -> bool {
        match actor {
            Actor::Program => oracle.is_due(id),
            Actor::Callback(own) if own == id || self.callbacks_take_turns => false,
            Actor::Callback(_) | Actor::OtherTimer => oracle.is_due(id) || oracle.ran_now(id),
        }
    }
}

fn is_of(slot: &Option<(Id, TimerHandle)>, own: Id) -> bool {
    slot.as_ref().is_some_and(|&(id, _)| id == own)
}

fn why_not<F>(scheduled: Result<TimerHandle, ScheduleError<F>>) -> Result<TimerHandle, Refusal> {
    scheduled.map_err(|error| match error {
        ScheduleError::ZeroPeriod(_) => Refusal::ZeroPeriod,
        ScheduleError::Shutdown(_) => Refusal::Shutdown,
        ScheduleError::Full(_) => Refusal::Full,
        ScheduleError::OutOfMemory(_) => Refusal::OutOfMemory,
        error => panic!("{error}"),
    })
}
