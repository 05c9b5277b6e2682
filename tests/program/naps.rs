//! What is done with futures.

use std::sync::Arc;
use std::time::Duration;

use super::acts::Told;
use super::awaited::{Answer, Awaited};
use super::bed::Bed;
use super::language::{Future, Nap, Span, When};
use super::oracle::{Deadline, Oracle};
use super::stage::{Actor, BEDS, Stage, World};
use super::task::Task;

/// The longest period of an interval: thousands of them fit into an `Instant`.
const LONGEST_PERIOD: Duration = Duration::from_secs(1 << 50);

impl Stage {
    pub fn nap(self: &Arc<Self>, world: &mut World, actor: Actor, slot: u8, nap: Nap) {
        let World { beds, oracle, timer, .. } = world;
        let place = &mut beds[usize::from(slot) % BEDS];
        if place.as_ref().is_some_and(|bed| self.may_be_woken_beside(bed, oracle, actor)) {
            return;
        }
        // Without memory for a future, the process ends.
        let needs_memory = matches!(nap, Nap::Begin { .. } | Nap::Poll { .. } | Nap::Reset(_));
        if needs_memory && self.is_short_of_memory() {
            return;
        }
        match (nap, &mut *place) {
            (Nap::Begin { future, when }, _) => {
                let Some(timer) = timer else { return };
                let (awaited, deadline) = self.begin(timer, future, when);
                let before = place.replace(Bed::new(self, oracle, awaited, deadline));
                before.into_iter().for_each(|bed| bed.clear(oracle, actor));
            }
            (Nap::Poll { second }, Some(bed)) => {
                if bed.poll(oracle, self, second.into()) {
                    place.take().into_iter().for_each(|bed| bed.clear(oracle, actor));
                }
            }
            (Nap::Reset(when), Some(bed)) => bed.reset(oracle, self, self.tell(when).1),
            (Nap::Answer, Some(bed)) => bed.answer(),
            (Nap::Drop, Some(_)) => place.take().into_iter().for_each(|bed| bed.clear(oracle, actor)),
            (_, None) => {}
        }
        if let Some(bed) = place {
            self.check_bed(bed, oracle, actor);
        }
    }

    /// Makes a future, which ends at the deadline that is returned.
    fn begin(&self, timer: &corewheel::Timer, future: Future, when: When) -> (Awaited, Deadline) {
        let (told, deadline) = self.tell(when);
        match future {
            Future::Sleep => {
                let sleep = match told {
                    Told::Delay(delay) => timer.sleep(delay),
                    Told::Deadline(deadline) => timer.sleep_until(deadline),
                };
                (Awaited::Sleep(sleep), deadline)
            }
            Future::Timeout { ready } => {
                let timeout = match told {
                    Told::Delay(delay) => timer.timeout(delay, Answer::new(ready)),
                    Told::Deadline(deadline) => timer.timeout_at(deadline, Answer::new(ready)),
                };
                (Awaited::Timeout(timeout), deadline)
            }
            Future::Interval { period, missed } => {
                let period = self.period(period);
                let (interval, first) = match told {
                    Told::Delay(_) => (timer.interval(period), Some(self.now())),
                    Told::Deadline(start) => (timer.interval_at(start, period), deadline),
                };
                (Awaited::interval(interval, period, missed), first)
            }
        }
    }

    /// What an interval accepts as its period.
    fn period(&self, span: Span) -> Duration {
        let period = span.length(self.tick).unwrap_or(LONGEST_PERIOD).min(LONGEST_PERIOD);
        if period.is_zero() { self.tick } else { period }
    }

    pub fn clear_beds(&self) {
        let mut world = self.lock();
        let World { beds, oracle, .. } = &mut *world;
        beds.iter_mut().filter_map(Option::take).for_each(|bed| bed.clear(oracle, Actor::Program));
    }

    pub fn check_bed(&self, bed: &Bed, oracle: &Oracle, actor: Actor) {
        if !self.may_be_woken_beside(bed, oracle, actor) {
            bed.check(oracle, self);
        }
    }

    /// Whether its waker may be called at this very moment.
    fn may_be_woken_beside(&self, bed: &Bed, oracle: &Oracle, actor: Actor) -> bool {
        let alone = matches!(actor, Actor::Callback(_)) && self.all_take_turns;
        !alone && bed.timer(oracle).is_some_and(|timer| oracle.is_due(timer))
    }

    /// It must be the task that polled last, and time for it.
    pub fn woken(&self, task: &Arc<Task>) {
        let mut world = self.lock();
        let by_shutdown = world.is_closed_here();
        let World { beds, oracle, .. } = &mut *world;
        let asleep = beds.iter().flatten().find_map(|bed| bed.asleep_for(task));
        let timer = asleep.expect("nobody but who polled last is woken");
        if by_shutdown {
            oracle.complete(timer);
        } else {
            oracle.start(timer);
        }
    }
}
