//! A timer and its oracle, side by side.

use std::any::Any;
use std::mem;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use corewheel::{BuildError, ManualClock, Timer, TimerHandle};

use super::bed::Bed;
use super::executors;
use super::language::{Action, Aim, Line, Program, Script, Settings};
use super::oracle::{Books, Deadline, Id, NEVER, Oracle};
use super::shortage::{Lack, Shortage};
use crate::common::{YEAR, assert_balanced, eventually, quiet_panic, threads_named};

/// The most timers of a stage: callbacks that schedule could go on without end.
const MOST_TIMERS: usize = 600;
/// The most actions of a callback.
const MOST_ACTIONS: usize = 8;
/// How many handles are kept.
pub const SLOTS: usize = 4;
/// How many futures are kept: few, as each takes many steps.
pub const BEDS: usize = 2;

/// What callbacks panic with that are told to.
const PLANNED: &str = "planned";

pub struct Stage {
    pub tick: Duration,
    clock: ManualClock,
    /// When the timer was built: its ticks count from then.
    origin: Instant,
    scripts: Vec<Vec<Line>>,
    /// Callbacks run one after the other.
    pub callbacks_take_turns: bool,
    /// Nothing runs beside a callback, not even a waker.
    pub all_take_turns: bool,
    world: Mutex<World>,
    /// The closures that have been dropped.
    pub dropped: Mutex<Vec<Id>>,
    failures: Failures,
    /// What the names of the timer's threads begin with.
    threads: String,
    shortage: Arc<Shortage>,
    /// Which of the stages this is.
    number: usize,
    stages: Stages,
}

/// The stages of a program, when they are built.
pub type Stages = Arc<[OnceLock<Weak<Stage>>]>;

/// Panics of callbacks that nobody planned.
type Failures = Arc<Mutex<Vec<Box<dyn Any + Send>>>>;

/// What there is, and what there should be.
pub struct World {
    /// The last clone. `None` if it was dropped.
    pub timer: Option<Timer>,
    pub oracle: Oracle,
    pub slots: [Option<(Id, TimerHandle)>; SLOTS],
    pub beds: [Option<Bed>; BEDS],
    /// The thread that is about to shut the timer down.
    pub closer: Option<ThreadId>,
}

impl World {
    /// Whether this thread is in the middle of the shutdown: what runs here is run by that.
    pub fn is_closed_here(&self) -> bool {
        self.closer == Some(thread::current().id())
    }
}

/// Where an action comes from, and so what may be going on beside it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Actor {
    Program,
    /// A callback of this stage's.
    Callback(Id),
    /// A callback of another stage's.
    OtherTimer,
}

impl Stage {
    /// Builds the timer. `None` if it was refused, as threads may be short.
    pub fn build(
        program: &Program,
        number: usize,
        clock: &ManualClock,
        shortage: &Arc<Shortage>,
        stages: &Stages,
    ) -> Option<Arc<Self>> {
        static BUILT: AtomicUsize = AtomicUsize::new(0);
        let settings = &program.timers[number];
        let failures = Failures::default();
        let threads = format!("play{}-", BUILT.fetch_add(1, Ordering::Relaxed));
        let builder = builder(settings, clock, &threads, failures.clone());
        let timer = match shortage.during(Lack::OfThreads, || builder.build()) {
            Ok(timer) => timer,
            Err(refused) => {
                assert!(shortage.may_refuse_threads() && matches!(refused, BuildError::ThreadStart(_)), "{refused:?}");
                eventually("the threads that were started end", || threads_named(&threads) == 0);
                return None;
            }
        };
        let tick = settings.tick.length();
        let stage = Arc::new(Self {
            origin: clock.now(),
            tick,
            clock: clock.clone(),
            scripts: program.scripts.clone(),
            callbacks_take_turns: settings.callbacks_take_turns(),
            all_take_turns: settings.all_take_turns(),
            world: Mutex::new(World {
                timer: Some(timer),
                oracle: Oracle::new(tick, settings.max_pending()),
                slots: Default::default(),
                beds: Default::default(),
                closer: None,
            }),
            dropped: Mutex::default(),
            failures,
            threads,
            shortage: shortage.clone(),
            number,
            stages: stages.clone(),
        });
        stages[number].get_or_init(|| Arc::downgrade(&stage));
        Some(stage)
    }

    /// The next stage of the program, if it is another, and built.
    fn next(&self) -> Option<Arc<Self>> {
        let next = (self.number + 1) % self.stages.len();
        self.stages[next].get().filter(|_| next != self.number)?.upgrade()
    }

    /// The world at the present time.
    pub fn lock(&self) -> MutexGuard<'_, World> {
        let mut world = lock(&self.world);
        world.oracle.now = self.now();
        world
    }

    /// The time since the timer was built.
    pub fn now(&self) -> Duration {
        self.clock.now() - self.origin
    }

    pub fn instant(&self, time: Duration) -> Instant {
        self.origin + time
    }

    pub fn note_drop(&self, id: Id) {
        lock(&self.dropped).push(id);
        if executors::drops_job() {
            self.lock().oracle.drop_job(id);
        }
    }

    pub fn was_dropped(&self, id: Id) -> bool {
        lock(&self.dropped).contains(&id)
    }

    pub fn has_room(&self, world: &World) -> bool {
        world.oracle.timers.len() < MOST_TIMERS
    }

    pub fn is_short_of_memory(&self) -> bool {
        self.shortage.is_of_memory()
    }

    /// Whether the instant shown for a timer is the one that it is due at; that of one that is due by now has passed.
    #[track_caller]
    pub fn assert_shown(&self, oracle: &Oracle, shown: Instant, due: u64, expected: Deadline) {
        if due == NEVER {
            assert!(shown >= self.clock.now() + 30 * YEAR);
        } else if oracle.has_come(due) {
            assert!(shown <= self.clock.now());
        } else {
            assert_eq!(Some(shown - self.origin), expected);
        }
    }

    /// When something is due next.
    pub fn next_due(&self) -> Option<Instant> {
        let world = self.lock();
        world.oracle.next().and_then(|tick| world.oracle.time(tick)).map(|time| self.instant(time))
    }

    /// Returns whether something is due then: asked later, it might be in the middle of its run.
    pub fn act_outside(self: &Arc<Self>, action: Action) -> bool {
        self.act(self.lock(), Actor::Program, action).oracle.is_anything_due()
    }

    /// What a callback of another timer does. It must not wait for callbacks of this one, which may wait for it.
    fn act_beside(self: &Arc<Self>, action: Action) {
        let world = self.lock();
        if world.closer.is_none() && !matches!(action, Action::Shutdown | Action::DropTimer) {
            drop(self.act(world, Actor::OtherTimer, action));
        }
    }

    /// While all is quiet, everything that was due has run, and the books agree, as do all handles and futures.
    pub fn look_around(&self) {
        if let Some(failure) = lock(&self.failures).pop() {
            resume_unwind(failure);
        }
        let world = self.lock();
        assert!(!world.oracle.is_anything_due(), "something due did not run at {:?}", world.oracle.now);
        if let Some(timer) = &world.timer {
            assert_eq!(Books::from(timer.stats()), world.oracle.books);
            assert_eq!(timer.is_shutdown(), world.oracle.is_shut_down);
        }
        world.slots.iter().flatten().for_each(|(id, handle)| self.check(&world, *id, handle, Actor::Program));
        world.beds.iter().flatten().for_each(|bed| self.check_bed(bed, &world.oracle, Actor::Program));
    }

    /// Ends the program on this stage.
    pub fn end(&self) {
        drop(self.shutdown(self.lock(), Actor::Program));
        self.look_around();
        self.clear_beds();
    }

    /// Lets go of all at the end, also a bad one.
    pub fn clear(&self) {
        let (timer, slots, beds) = {
            let mut world = self.lock();
            (world.timer.clone(), mem::take(&mut world.slots), mem::take(&mut world.beds))
        };
        timer.into_iter().for_each(|timer| drop(timer.shutdown()));
        drop((slots, beds));
    }

    /// At the end every thread has ended, and every closure has been dropped once.
    pub fn account(&self) {
        eventually("the threads end", || threads_named(&self.threads) == 0);
        let mut dropped = mem::take(&mut *lock(&self.dropped));
        dropped.sort_unstable();
        let world = self.lock();
        let closures = (0..world.oracle.timers.len()).filter(|&id| world.oracle.has_closure(id));
        assert_eq!(dropped, closures.collect::<Vec<_>>());
        world.timer.iter().for_each(assert_balanced);
    }

    /// What every callback does. Returns the deadline of a run, but not if it was handed back by the shutdown, and is run
    /// by that.
    pub fn perform(self: &Arc<Self>, id: Id, script: Script, told: Option<Instant>) -> Option<Duration> {
        let mut world = self.lock();
        if world.is_closed_here() {
            return None;
        }
        let deadline = world.oracle.start(id);
        if let Some(told) = told {
            assert_eq!(told - self.origin, deadline);
        }
        let lines = match self.scripts.len() {
            0 => &[],
            scripts => &self.scripts[usize::from(script.0) % scripts][..],
        };
        for &Line { action, aim } in lines.iter().take(MOST_ACTIONS) {
            if matches!(action, Action::Panic) {
                world.oracle.finish(id);
                planned_panic(world);
            }
            if let Aim::Next = aim
                && let Some(next) = self.next()
            {
                drop(world);
                next.act_beside(action);
                world = self.lock();
            } else if world.closer.is_none() {
                // What is done while another thread shuts the timer down may come before that or after.
                world = self.act(world, Actor::Callback(id), action);
            }
        }
        Some(deadline)
    }

    fn act<'a>(
        self: &'a Arc<Self>,
        mut world: MutexGuard<'a, World>,
        actor: Actor,
        action: Action,
    ) -> MutexGuard<'a, World> {
        match action {
            Action::Schedule { slot, when, callback } => self.schedule(&mut world, actor, slot, when, callback),
            Action::Repeat { slot, first, rule, callback, runs } => {
                self.repeat(&mut world, actor, slot, first, rule, callback, runs)
            }
            Action::Crowd { number, first, apart } => self.gather(&mut world, actor, number, first, apart),
            Action::Touch { whose, touch } => self.touch(&mut world, actor, whose, touch),
            Action::Nap { slot, nap } => self.nap(&mut world, actor, slot, nap),
            Action::Panic => {}
            Action::Shutdown => return self.shutdown(world, actor),
            Action::DropTimer => return self.drop_timer(world, actor),
        }
        world
    }
}

fn builder(settings: &Settings, clock: &ManualClock, threads: &str, failures: Failures) -> corewheel::Builder {
    let mut builder = Timer::builder().clock(clock.clone());
    if !settings.wheel.is_empty() {
        builder = builder.wheel(&settings.slots_per_level());
    }
    if let Some(most) = settings.max_pending() {
        builder = builder.max_pending(most);
    }
    let note = move |panic: Box<dyn Any + Send>| {
        if panic.downcast_ref() != Some(&PLANNED) {
            lock(&failures).push(panic);
        }
    };
    let executor = executors::start(settings.workers, threads);
    let builder = builder.tick(settings.tick.length()).shards(settings.shards()).executor(executor);
    builder.thread_name(threads).on_panic(note)
}

/// Ends a callback.
pub fn planned_panic(mut world: MutexGuard<'_, World>) -> ! {
    world.oracle.books.panicked += 1;
    drop(world);
    quiet_panic(PLANNED)
}

/// After a failure the rest is of no interest, but it should not hide that.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
