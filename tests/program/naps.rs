//! What is done with futures.

use std::cell::Cell;
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
    /// How often a task has been woken by the poll that this thread is in the middle of.
    static WOKEN_BY_POLL: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Tells the stage when it is woken.
struct Task(Weak<Stage>);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        if let Some(times) = WOKEN_BY_POLL.get() {
            WOKEN_BY_POLL.set(Some(times + 1));
        } else if let Some(stage) = self.0.upgrade() {
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
            Sleeper::Asleep { .. } => self.timer(oracle).is_none_or(|timer| oracle.is_due(timer)),
            Sleeper::Up => true,
        };
        elapsed || oracle.is_shut_down
    }

    fn poll(&mut self, oracle: &mut Oracle, task: usize) {
        let waker = Waker::from(self.tasks[task].clone());
        WOKEN_BY_POLL.set(Some(0));
        let polled = self.sleep.as_mut().poll(&mut Context::from_waker(&waker));
        let woken = WOKEN_BY_POLL.take();
        let put_off = self.is_elapsed(oracle)
            && match self.turn {
                Turn::Fresh if polled.is_ready() => {
                    AT_ONCE.set(AT_ONCE.get() + 1);
                    false
                }
                Turn::Fresh => {
                    assert!(AT_ONCE.replace(0) >= PUT_OFF_RARELY, "put off too often");
                    true
                }
                Turn::Owed => true,
                Turn::Waited => false,
            };
        let ready = self.is_elapsed(oracle) && !put_off;
        assert_eq!((polled.is_ready(), woken), (ready, Some(put_off.into())), "the sleep in {:?}", self.timer(oracle));
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
    }

    fn reset(&mut self, oracle: &mut Oracle, stage: &Stage, deadline: Duration) {
        self.sleep.as_mut().reset(stage.instant(deadline));
        (self.deadline, self.due) = (Some(deadline), oracle.due(Some(deadline)));
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

    /// Drops the future, and looks whether it has let go of the wakers; inside a callback they may be in use.
    fn clear(self, oracle: &mut Oracle, own: Option<Id>) {
        if let Some(timer) = self.timer(oracle) {
            oracle.cancel(timer);
        }
        drop(self.sleep);
        assert!(own.is_some() || self.tasks.iter().all(|task| Arc::strong_count(task) == 1));
    }
}

impl Turn {
    fn set(oracle: &Oracle) -> Self {
        if oracle.is_shut_down { Self::Owed } else { Self::Fresh }
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
        let (due, turn) = (oracle.due(deadline), Turn::set(oracle));
        Bed { sleep: Box::pin(sleep), deadline, due, tasks, sleeper: Sleeper::Awake, turn }
    }

    pub fn check_bed(&self, bed: &Bed, oracle: &Oracle, own: Option<Id>) {
        if self.may_be_woken_beside(bed, oracle, own) {
            return;
        }
        assert_eq!(bed.sleep.is_elapsed(), bed.is_elapsed(oracle));
        assert!(oracle.is_shut_down || !bed.sleep.is_shutdown());
        match bed.deadline {
            Some(deadline) => assert_eq!(bed.sleep.deadline(), self.instant(deadline)),
            None => self.assert_shown(oracle, bed.sleep.deadline(), NEVER, None),
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
