//! The harness of one `Timer`: the timer, its oracle, its handles and its futures.

use std::any::Any;
use std::mem;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use corewheel::{BuildError, ManualClock, Panicked, Timer, TimerHandle};

use super::executors;
use super::grammar::{Action, CallbackStep, MAX_BITS, Program, Script, Settings, Target, ticks};
use super::oracle::{Counts, Deadline, Id, NEVER, Oracle};
use super::shortage::{Resource, Shortage};
use super::sleep_slot::SleepSlot;
use crate::common::{YEAR, assert_balanced, eventually, quiet_panic, threads_named};

/// Maximum number of timers: callbacks that schedule could go on without end.
const MAX_TIMERS: usize = 600;
/// Maximum number of actions of a callback.
const MAX_ACTIONS: usize = 8;
/// Number of handles that are kept.
pub const HANDLE_SLOTS: usize = 4;
/// Number of futures that are kept: few, because each is used in many steps.
pub const SLEEP_SLOTS: usize = 2;

/// The payload of intended panics.
const PLANNED: &str = "planned";

pub struct Harness {
    pub tick: Duration,
    clock: ManualClock,
    /// When the timer was built: its ticks count from then.
    origin: Instant,
    scripts: Vec<Vec<CallbackStep>>,
    /// At most one callback runs at a time.
    pub callbacks_are_serial: bool,
    /// Nothing runs concurrently with a callback, not even a waker.
    pub everything_is_serial: bool,
    state: Mutex<HarnessState>,
    /// The timers whose closures have been dropped.
    pub dropped: Mutex<Vec<Id>>,
    failures: Failures,
    /// The prefix of the names of the timer's threads.
    threads: String,
    shortage: Arc<Shortage>,
    /// The index of this harness.
    index: usize,
    harnesses: Harnesses,
}

/// The harnesses of a program, each from its build on.
pub type Harnesses = Arc<[OnceLock<Weak<Harness>>]>;

/// Panics of callbacks that were not intended.
type Failures = Arc<Mutex<Vec<Box<dyn Any + Send>>>>;

/// The timer, and the state that it should be in.
pub struct HarnessState {
    /// The last clone. `None` if it was dropped.
    pub timer: Option<Timer>,
    pub oracle: Oracle,
    pub handles: [Option<(Id, TimerHandle)>; HANDLE_SLOTS],
    pub sleeps: [Option<SleepSlot>; SLEEP_SLOTS],
    /// The thread that shuts the timer down at present.
    pub closing_thread: Option<ThreadId>,
}

impl HarnessState {
    /// Whether this thread is inside the shutdown, which then runs the caller of this function.
    pub fn is_closing_here(&self) -> bool {
        self.closing_thread == Some(thread::current().id())
    }
}

/// The caller of an action, which decides what may run concurrently.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Caller {
    Program,
    /// A callback of this harness.
    Callback(Id),
    /// A callback of another harness.
    OtherTimer,
}

impl Harness {
    /// Builds the timer. `None` if `build` failed for lack of threads.
    pub fn build(
        program: &Program,
        index: usize,
        clock: &ManualClock,
        shortage: &Arc<Shortage>,
        harnesses: &Harnesses,
    ) -> Option<Arc<Self>> {
        static BUILT: AtomicUsize = AtomicUsize::new(0);
        let settings = &program.timers[index];
        let failures = Failures::default();
        let threads = format!("prog{}-", BUILT.fetch_add(1, Ordering::Relaxed));
        let builder = builder(settings, clock, &threads, failures.clone());
        let timer = match shortage.during(Resource::Threads, || builder.build()) {
            Ok(timer) => timer,
            Err(refused) => {
                assert!(shortage.may_refuse_threads() && matches!(refused, BuildError::ThreadStart(_)), "{refused:?}");
                eventually("the threads that were started have ended", || threads_named(&threads) == 0);
                return None;
            }
        };
        let tick = settings.tick.length();
        let harness = Arc::new(Self {
            origin: clock.now(),
            tick,
            clock: clock.clone(),
            scripts: program.scripts.clone(),
            callbacks_are_serial: settings.callbacks_are_serial(),
            everything_is_serial: settings.everything_is_serial(),
            state: Mutex::new(HarnessState {
                timer: Some(timer),
                oracle: Oracle::new(tick, settings.max_pending()),
                handles: Default::default(),
                sleeps: Default::default(),
                closing_thread: None,
            }),
            dropped: Mutex::default(),
            failures,
            threads,
            shortage: shortage.clone(),
            index,
            harnesses: harnesses.clone(),
        });
        harnesses[index].get_or_init(|| Arc::downgrade(&harness));
        Some(harness)
    }

    /// Returns the next harness of the program, if it is another one and has been built.
    fn next(&self) -> Option<Arc<Self>> {
        let next = (self.index + 1) % self.harnesses.len();
        self.harnesses[next].get().filter(|_| next != self.index)?.upgrade()
    }

    /// Locks the state and sets the oracle's time to the present.
    pub fn lock(&self) -> MutexGuard<'_, HarnessState> {
        let mut state = lock(&self.state);
        state.oracle.now = self.now();
        state
    }

    /// Returns the time since the timer was built.
    pub fn now(&self) -> Duration {
        self.clock.now() - self.origin
    }

    pub fn instant(&self, time: Duration) -> Instant {
        self.origin + time
    }

    /// When the virtual time of this timer ends.
    pub fn end(&self) -> Instant {
        self.instant(ticks(self.tick, 1 << MAX_BITS))
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

    pub fn has_room(&self, state: &HarnessState) -> bool {
        state.oracle.timers.len() < MAX_TIMERS
    }

    pub fn is_short_of_memory(&self) -> bool {
        self.shortage.is_memory_short()
    }

    /// Asserts that a displayed deadline is the expected one. That of a timer that is due must have passed.
    #[track_caller]
    pub fn assert_displayed(&self, oracle: &Oracle, displayed: Instant, due: u64, expected: Deadline) {
        if due == NEVER {
            assert!(displayed >= self.clock.now() + 30 * YEAR);
        } else if oracle.is_reached(due) {
            assert!(displayed <= self.clock.now());
        } else {
            assert_eq!(Some(displayed - self.origin), expected);
        }
    }

    /// Returns when the next timer is due.
    pub fn next_due(&self) -> Option<Instant> {
        let state = self.lock();
        state.oracle.next().and_then(|tick| state.oracle.time(tick)).map(|time| self.instant(time))
    }

    /// Performs an action of the program. Returns whether a timer is due afterwards: once the lock is released, that
    /// timer may be running.
    pub fn act_from_program(self: &Arc<Self>, action: Action) -> bool {
        self.act(self.lock(), Caller::Program, action).oracle.is_anything_due()
    }

    /// Performs an action of another timer's callback. It must not wait for callbacks of this timer, which may wait for
    /// it.
    fn act_from_other_timer(self: &Arc<Self>, action: Action) {
        let state = self.lock();
        if state.closing_thread.is_none() && !matches!(action, Action::Shutdown | Action::DropTimer) {
            drop(self.act(state, Caller::OtherTimer, action));
        }
    }

    /// Asserts, while no callback runs, that every timer that was due has run, and that counts, handles and futures
    /// agree with the oracle.
    pub fn check_quiescent(&self) {
        if let Some(failure) = lock(&self.failures).pop() {
            resume_unwind(failure);
        }
        let state = self.lock();
        assert!(!state.oracle.is_anything_due(), "a timer that was due at {:?} did not run", state.oracle.now);
        if let Some(timer) = &state.timer {
            assert_eq!(Counts::from(timer.stats()), state.oracle.counts);
            assert_eq!(timer.is_shutdown(), state.oracle.is_shut_down);
        }
        state.handles.iter().flatten().for_each(|(id, handle)| self.check(&state, *id, handle, Caller::Program));
        state.sleeps.iter().flatten().for_each(|sleep| self.check_sleep(sleep, &state.oracle, Caller::Program));
    }

    /// Shuts the timer down and checks it for the last time.
    pub fn finish(&self) {
        drop(self.shutdown(self.lock(), Caller::Program));
        self.check_quiescent();
        self.clear_sleeps();
    }

    /// Drops everything, also after a failure.
    pub fn tear_down(&self) {
        let (timer, handles, sleeps) = {
            let mut state = self.lock();
            (state.timer.clone(), mem::take(&mut state.handles), mem::take(&mut state.sleeps))
        };
        if let Some(timer) = timer {
            drop(timer.shutdown());
        }
        drop((handles, sleeps));
    }

    /// Asserts that every thread has ended and that every closure was dropped once.
    pub fn check_totals(&self) {
        eventually("the threads have ended", || threads_named(&self.threads) == 0);
        let mut dropped = mem::take(&mut *lock(&self.dropped));
        dropped.sort_unstable();
        let state = self.lock();
        let closures = (0..state.oracle.timers.len()).filter(|&id| state.oracle.has_closure(id));
        assert_eq!(dropped, closures.collect::<Vec<_>>());
        if let Some(timer) = &state.timer {
            assert_balanced(timer);
        }
    }

    /// Runs the script of a callback. Returns the deadline of the run. `None` if the shutdown handed the callback back
    /// and runs it.
    pub fn run_callback(self: &Arc<Self>, id: Id, script: Script, given: Option<Instant>) -> Option<Duration> {
        let mut state = self.lock();
        if state.is_closing_here() {
            return None;
        }
        let deadline = state.oracle.start(id);
        if let Some(given) = given {
            assert_eq!(given - self.origin, deadline);
        }
        let lines = match self.scripts.len() {
            0 => &[],
            scripts => &self.scripts[usize::from(script.0) % scripts][..],
        };
        for &CallbackStep { action, target } in lines.iter().take(MAX_ACTIONS) {
            if matches!(action, Action::Panic) {
                state.oracle.finish(id);
                planned_panic(state);
            }
            if let Target::Next = target
                && let Some(next) = self.next()
            {
                drop(state);
                next.act_from_other_timer(action);
                state = self.lock();
            } else if state.closing_thread.is_none() {
                // Another thread shuts the timer down, so an action could come before that or after it.
                state = self.act(state, Caller::Callback(id), action);
            }
        }
        Some(deadline)
    }

    fn act<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, HarnessState>,
        caller: Caller,
        action: Action,
    ) -> MutexGuard<'a, HarnessState> {
        match action {
            Action::Schedule { slot, when, callback } => self.schedule(&mut state, caller, slot, when, callback),
            Action::Repeat { slot, first, schedule, callback, runs } => {
                self.repeat(&mut state, caller, slot, first, schedule, callback, runs)
            }
            Action::ScheduleMany { count, first, spacing } => {
                self.schedule_many(&mut state, caller, count, first, spacing)
            }
            Action::Handle { which, op } => self.handle_op(&mut state, caller, which, op),
            Action::Sleep { slot, op } => self.sleep_op(&mut state, caller, slot, op),
            Action::Panic => {}
            Action::Shutdown => return self.shutdown(state, caller),
            Action::DropTimer => return self.drop_timer(state, caller),
        }
        state
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
    let record = move |panicked: Panicked| {
        if panicked.payload.downcast_ref() != Some(&PLANNED) {
            lock(&failures).push(panicked.payload);
        }
    };
    let executor = executors::start(settings.executor, threads);
    let builder = builder.tick(settings.tick.length()).shards(settings.shards()).executor(executor);
    builder.thread_name(threads).on_panic(record)
}

/// Ends a callback with an intended panic.
pub fn planned_panic(mut state: MutexGuard<'_, HarnessState>) -> ! {
    state.oracle.counts.panicked += 1;
    drop(state);
    quiet_panic(PLANNED)
}

/// Ignores poisoning, so that it does not hide the failure that caused it.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
