//! What is done with futures.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use corewheel::Sleep;

use super::acts::Told;
use super::language::{Nap, When};
use super::oracle::{Deadline, Id, NEVER, Oracle};
use super::stage::{SLOTS, Stage, World};

/// A future, and two tasks that poll it.
pub struct Bed {
    sleep: Pin<Box<Sleep>>,
    deadline: Deadline,
    due: u64,
    tasks: [Arc<Task>; 2],
    sleeper: Sleeper,
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

/// Tells the stage when it is woken.
struct Task(Weak<Stage>);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        if let Some(stage) = self.0.upgrade() {
            stage.woken(&self);
        }
    }
}

impl Bed {
    /// The timer that runs for it.
    fn timer(&self, oracle: &Oracle) -> Option<Id> {
        match self.sleeper {
            Sleeper::Asleep { timer, .. } if oracle.is_pending(timer) => Some(timer),
            _ => None,
        }
    }

    fn is_elapsed(&self, oracle: &Oracle) -> bool {
        let elapsed = match self.sleeper {
            Sleeper::Awake => oracle.has_come(self.due),
            Sleeper::Asleep { .. } => self.timer(oracle).is_none(),
            Sleeper::Up => true,
        };
        elapsed || oracle.is_shut_down
    }

    fn poll(&mut self, oracle: &mut Oracle, task: usize) {
        let waker = Waker::from(self.tasks[task].clone());
        let polled = self.sleep.as_mut().poll(&mut Context::from_waker(&waker));
        assert_eq!(polled.is_ready(), self.is_elapsed(oracle), "the sleep in timer {:?}", self.timer(oracle));
        self.sleeper = match self.sleeper {
            _ if polled.is_ready() => Sleeper::Up,
            Sleeper::Asleep { timer, .. } => Sleeper::Asleep { timer, task },
            Sleeper::Awake | Sleeper::Up => Sleeper::Asleep { timer: oracle.sleep(self.deadline, self.due), task },
        };
    }

    fn reset(&mut self, oracle: &mut Oracle, stage: &Stage, deadline: Duration) {
        self.sleep.as_mut().reset(stage.instant(deadline));
        (self.deadline, self.due) = (Some(deadline), oracle.due(Some(deadline)));
        match self.timer(oracle) {
            Some(timer) => assert!(oracle.reset(timer, Some(deadline))),
            None => self.sleeper = Sleeper::Awake,
        }
    }

    /// Drops the future, and looks whether it has let go of the wakers; inside a callback they may be in use.
    fn clear(self, oracle: &mut Oracle, own: Option<Id>) {
        if let Some(timer) = self.timer(oracle) {
            oracle.cancel(timer);
        }
        drop(self.sleep);
        assert!(own.is_some() || self.tasks.iter().all(|task| Arc::strong_count(task) == 1));
    }
}

impl Stage {
    pub fn nap(self: &Arc<Self>, world: &mut World, own: Option<Id>, slot: u8, nap: Nap) {
        let World { beds, oracle, .. } = world;
        let place = &mut beds[usize::from(slot) % SLOTS];
        if place.as_ref().is_some_and(|bed| self.may_be_woken_beside(bed, oracle, own)) {
            return;
        }
        match (nap, &mut *place) {
            (Nap::Begin(when), _) => {
                let bed = self.make_bed(oracle, when);
                let before = place.replace(bed);
                before.into_iter().for_each(|bed| bed.clear(oracle, own));
            }
            (Nap::Poll { second }, Some(bed)) => bed.poll(oracle, second.into()),
            (Nap::Reset(when), Some(bed)) => {
                if let (_, Some(deadline)) = self.tell(when) {
                    bed.reset(oracle, self, deadline);
                }
            }
            (Nap::Drop, Some(_)) => place.take().into_iter().for_each(|bed| bed.clear(oracle, own)),
            (_, None) => {}
        }
        if let Some(bed) = place {
            self.check_bed(bed, oracle, own);
        }
    }

    pub fn clear_beds(&self) {
        let mut world = self.lock();
        let World { beds, oracle, .. } = &mut *world;
        beds.iter_mut().filter_map(Option::take).for_each(|bed| bed.clear(oracle, None));
    }

    fn make_bed(self: &Arc<Self>, oracle: &Oracle, when: When) -> Bed {
        let (told, deadline) = self.tell(when);
        let sleep = match told {
            Told::Delay(delay) => self.timer.sleep(delay),
            Told::Deadline(deadline) => self.timer.sleep_until(deadline),
        };
        let tasks = [(); 2].map(|()| Arc::new(Task(Arc::downgrade(self))));
        Bed { sleep: Box::pin(sleep), deadline, due: oracle.due(deadline), tasks, sleeper: Sleeper::Awake }
    }

    pub fn check_bed(&self, bed: &Bed, oracle: &Oracle, own: Option<Id>) {
        if self.may_be_woken_beside(bed, oracle, own) {
            return;
        }
        assert_eq!(bed.sleep.is_elapsed(), bed.is_elapsed(oracle));
        assert!(oracle.is_shut_down || !bed.sleep.is_shutdown());
        // One that was made after the shutdown has no timer to tell a new deadline.
        if !oracle.is_shut_down {
            match bed.deadline {
                Some(deadline) => assert_eq!(bed.sleep.deadline(), self.instant(deadline)),
                None => self.assert_shown(oracle, bed.sleep.deadline(), NEVER, None),
            }
        }
    }

    /// Whether its waker may be called at this very moment.
    fn may_be_woken_beside(&self, bed: &Bed, oracle: &Oracle, own: Option<Id>) -> bool {
        let alone = own.is_some() && self.all_take_turns;
        !alone && bed.timer(oracle).is_some_and(|timer| oracle.is_due(timer))
    }

    /// It must be the task that polled last, and time for it.
    fn woken(&self, task: &Arc<Task>) {
        let mut world = self.lock();
        let by_shutdown = world.is_closed_here();
        let World { beds, oracle, .. } = &mut *world;
        let asleep = beds.iter().flatten().find_map(|bed| match bed.sleeper {
            Sleeper::Asleep { timer, task: polled } => Arc::ptr_eq(&bed.tasks[polled], task).then_some(timer),
            Sleeper::Awake | Sleeper::Up => None,
        });
        let timer = asleep.expect("nobody but who polled last is woken");
        if by_shutdown {
            oracle.complete(timer);
        } else {
            oracle.start(timer);
        }
    }
}
