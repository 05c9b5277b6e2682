//! Plays a program on a timer and on the oracle, side by side.

use std::any::Any;
use std::mem;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use corewheel::{Executor, ManualClock, Timer, TimerHandle};

use super::in_turn::InTurn;
use super::language::{Action, Program, Script, Settings, Step, Workers};
use super::naps::Bed;
use super::oracle::{Books, Deadline, Id, NEVER, Oracle};
use crate::common::{YEAR, assert_balanced, eventually, on_manual_clock, quiet_panic, threads_named};

/// The most timers of a program: callbacks that schedule could go on without end.
const MOST_TIMERS: usize = 600;
/// The most actions of a callback.
const MOST_ACTIONS: usize = 8;
/// How many handles are kept, and how many futures.
pub const SLOTS: usize = 4;
/// How far the clock is moved at the most: an `Instant` has room for some times as much.
const MOST_UPTIME: Duration = Duration::from_secs(1 << 60);

/// What callbacks panic with that are told to.
const PLANNED: &str = "planned";

pub struct Stage {
    pub timer: Timer,
    pub tick: Duration,
    clock: ManualClock,
    origin: Instant,
    scripts: Vec<Vec<Action>>,
    /// Callbacks run one after the other.
    pub callbacks_take_turns: bool,
    /// Nothing runs beside a callback, not even a waker.
    pub all_take_turns: bool,
    world: Mutex<World>,
    /// The closures that have been dropped.
    dropped: Mutex<Vec<Id>>,
    failures: Failures,
    /// What the names of the timer's threads begin with.
    threads: String,
}

/// Panics of callbacks that nobody planned.
type Failures = Arc<Mutex<Vec<Box<dyn Any + Send>>>>;

/// What there is, and what there should be.
pub struct World {
    pub oracle: Oracle,
    pub slots: [Option<(Id, TimerHandle)>; SLOTS],
    pub beds: [Option<Bed>; SLOTS],
    /// The thread that is about to shut the timer down.
    closer: Option<ThreadId>,
}

impl World {
    /// Whether this thread is in the middle of the shutdown: what runs here is run by that.
    pub fn is_closed_here(&self) -> bool {
        self.closer == Some(thread::current().id())
    }
}

/// Plays a program.
///
/// # Panics
/// If the timer does anything but what it should.
pub fn play(program: &Program) {
    let stage = Stage::set_up(program);
    let curtain = Curtain(&stage);
    for step in &program.steps {
        stage.take(step);
        stage.look_around();
    }
    drop(stage.shutdown(stage.lock(), None));
    stage.look_around();
    stage.clear_beds();
    drop(curtain);
    stage.account();
}

/// Lets go of all at the end, also a bad one.
struct Curtain<'a>(&'a Stage);

impl Drop for Curtain<'_> {
    fn drop(&mut self) {
        drop(self.0.timer.shutdown());
        let (slots, beds) = {
            let mut world = self.0.lock();
            (mem::take(&mut world.slots), mem::take(&mut world.beds))
        };
        drop((slots, beds));
    }
}

impl Stage {
    fn set_up(program: &Program) -> Arc<Self> {
        let settings = &program.settings;
        let tick = settings.tick.length();
        let failures = Failures::default();
        static PLAYED: AtomicUsize = AtomicUsize::new(0);
        let threads = format!("play{}-", PLAYED.fetch_add(1, Ordering::Relaxed));
        let (timer, clock) = build(settings, &threads, failures.clone());
        Arc::new(Self {
            origin: clock.now(),
            timer,
            tick,
            clock,
            scripts: program.scripts.clone(),
            callbacks_take_turns: settings.callbacks_take_turns(),
            all_take_turns: settings.all_take_turns(),
            world: Mutex::new(World {
                oracle: Oracle::new(tick, settings.max_pending()),
                slots: Default::default(),
                beds: Default::default(),
                closer: None,
            }),
            dropped: Mutex::default(),
            failures,
            threads,
        })
    }

    /// The world at the present time.
    pub fn lock(&self) -> MutexGuard<'_, World> {
        let mut world = lock(&self.world);
        world.oracle.now = self.now();
        world
    }

    /// The time since the timer's birth.
    pub fn now(&self) -> Duration {
        self.clock.now() - self.origin
    }

    pub fn instant(&self, time: Duration) -> Instant {
        self.origin + time
    }

    pub fn note_drop(&self, id: Id) {
        lock(&self.dropped).push(id);
    }

    pub fn was_dropped(&self, id: Id) -> bool {
        lock(&self.dropped).contains(&id)
    }

    pub fn has_room(&self, world: &World) -> bool {
        world.oracle.timers.len() < MOST_TIMERS
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

    /// Takes a step, and lets all that is due have its turn.
    fn take(self: &Arc<Self>, step: &Step) {
        let target = match *step {
            Step::Do { action, elsewhere: false } => self.act_outside(action),
            Step::Do { action, elsewhere: true } => {
                thread::scope(|scope| scope.spawn(|| self.act_outside(action)).join()).unwrap_or_else(|panic| {
                    resume_unwind(panic);
                })
            }
            Step::Advance(span) => span.length(self.tick).map(|length| self.now() + length),
            Step::AdvanceToNext { short } => {
                let world = self.lock();
                let next = world.oracle.next().and_then(|tick| world.oracle.time(tick));
                next.map(|next| next.saturating_sub(Duration::from_nanos(short.into())))
            }
        };
        if let Some(target) = target.filter(|&target| self.now() <= target && target <= MOST_UPTIME) {
            self.clock.advance_to(self.instant(target));
            assert_eq!(self.now(), target);
        }
    }

    /// Returns the present if something is due then.
    fn act_outside(self: &Arc<Self>, action: Action) -> Option<Duration> {
        let world = self.act(self.lock(), None, action);
        world.oracle.is_anything_due().then_some(world.oracle.now)
    }

    /// While all is quiet, everything that was due has run, and the books agree, as do all handles and futures.
    fn look_around(&self) {
        if let Some(failure) = lock(&self.failures).pop() {
            resume_unwind(failure);
        }
        let world = self.lock();
        assert!(!world.oracle.is_anything_due(), "something due did not run at {:?}", world.oracle.now);
        assert_eq!(Books::from(self.timer.stats()), world.oracle.books);
        world.slots.iter().flatten().for_each(|(id, handle)| self.check(&world, *id, handle, None));
        world.beds.iter().flatten().for_each(|bed| self.check_bed(bed, &world.oracle, None));
    }

    /// At the end every thread has ended, and every closure has been dropped once.
    fn account(&self) {
        eventually("the threads end", || threads_named(&self.threads) == 0);
        let mut dropped = mem::take(&mut *lock(&self.dropped));
        dropped.sort_unstable();
        let world = self.lock();
        let closures = (0..world.oracle.timers.len()).filter(|&id| world.oracle.has_closure(id));
        assert_eq!(dropped, closures.collect::<Vec<_>>());
        assert_balanced(&self.timer);
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
        let actions = match self.scripts.len() {
            0 => &[],
            scripts => &self.scripts[usize::from(script.0) % scripts][..],
        };
        for &action in actions.iter().take(MOST_ACTIONS) {
            if matches!(action, Action::Panic) {
                world.oracle.finish(id);
                planned_panic(world);
            }
            // What is done while another thread shuts the timer down may come before that or after.
            if world.closer.is_none() {
                world = self.act(world, Some(id), action);
            }
        }
        Some(deadline)
    }

    /// Shuts the timer down, from inside the callback of `own`, and looks at what is handed back.
    fn shutdown<'a>(&'a self, mut world: MutexGuard<'a, World>, own: Option<Id>) -> MutexGuard<'a, World> {
        let again = mem::replace(&mut world.oracle.is_shut_down, true);
        world.closer = Some(thread::current().id());
        drop(world);

        let mut handed_back = Vec::new();
        for (index, unfired) in self.timer.shutdown().enumerate() {
            let deadline = unfired.deadline;
            let dropped = lock(&self.dropped).len();
            if index % 2 == 0 {
                unfired.run()
            } else {
                drop(unfired)
            }
            // Whichever it was, now its closure is gone, and tells who it was.
            let [id] = lock(&self.dropped)[dropped..] else { panic!("one closure is gone") };
            handed_back.push((id, deadline));
        }
        assert!(handed_back.is_sorted_by_key(|&(_, deadline)| deadline));
        assert!(handed_back.is_empty() || !again);

        let mut world = self.lock();
        for (id, deadline) in handed_back {
            let due = world.oracle.timers[id].due;
            self.assert_shown(&world.oracle, deadline, due, world.oracle.time(due));
            world.oracle.hand_back(id);
        }
        if let Some(own) = own {
            world.oracle.cancel(own);
        }
        assert_eq!(world.oracle.books.pending, 0, "lost by the shutdown");
        world.closer = None;
        world
    }

    fn act<'a>(
        self: &'a Arc<Self>,
        mut world: MutexGuard<'a, World>,
        own: Option<Id>,
        action: Action,
    ) -> MutexGuard<'a, World> {
        match action {
            Action::Schedule { slot, when, callback } => self.schedule(&mut world, slot, when, callback),
            Action::Repeat { slot, first, rule, callback, runs } => {
                self.repeat(&mut world, slot, first, rule, callback, runs)
            }
            Action::Crowd { number, first, apart } => self.gather(&mut world, number, first, apart),
            Action::Touch { whose, touch } => self.touch(&mut world, own, whose, touch),
            Action::Nap { slot, nap } => self.nap(&mut world, own, slot, nap),
            Action::Panic => {}
            Action::Shutdown => return self.shutdown(world, own),
        }
        world
    }
}

fn build(settings: &Settings, threads: &str, failures: Failures) -> (Timer, ManualClock) {
    let (mut builder, clock) = on_manual_clock();
    if !settings.wheel.is_empty() {
        builder = builder.wheel(&settings.slots_per_level());
    }
    if let Some(most) = settings.max_pending() {
        builder = builder.max_pending(most);
    }
    let executor = match (settings.threads(), settings.workers) {
        (Some(threads), _) => Executor::Pool { threads },
        (None, Workers::InTurn) => Executor::Custom(Arc::new(InTurn::default())),
        (None, _) => Executor::Inline,
    };
    let note = move |panic: Box<dyn Any + Send>| {
        if panic.downcast_ref() != Some(&PLANNED) {
            lock(&failures).push(panic);
        }
    };
    let builder = builder.tick(settings.tick.length()).shards(settings.shards()).executor(executor);
    let builder = builder.thread_name(threads).on_panic(note);
    (builder.build().unwrap(), clock)
}

/// Ends a callback.
pub fn planned_panic(mut world: MutexGuard<'_, World>) -> ! {
    world.oracle.books.panicked += 1;
    drop(world);
    quiet_panic(PLANNED)
}

/// After a failure the rest is of no interest, but it should not hide that.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
