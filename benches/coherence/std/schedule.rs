//! Logical threads. One of them runs at a time, a seed selects it, and time is virtual. So all runs with the same seed
//! are identical.
//!
//! A logical thread is a thread of the system that waits for its turn. So thread-locals, their destructors and
//! unwinding are the real ones. A turn may end before each access to shared memory, and ends when the thread waits.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, MutexGuard};
use std::thread::{self, JoinHandle, Thread};

/// The number of no thread.
const NONE: usize = usize::MAX;
/// Default mean number of accesses in a turn: about the number that a thread makes while a line is transferred.
pub const MEAN_TURN: u64 = 8;

/// State of the running simulation.
static STATE: Mutex<State> = Mutex::new(State::new(0, MEAN_TURN));
/// The thread whose turn it is.
static CURRENT: AtomicUsize = AtomicUsize::new(NONE);
/// Locked for a whole simulation, so that only one runs at a time.
static SIMULATION: Mutex<()> = Mutex::new(());

thread_local! {
    static THIS: Cell<usize> = const { Cell::new(NONE) };
    static END: End = const { End };
}

struct State {
    threads: Vec<Logical>,
    random: u64,
    mean_turn: u64,
    /// Virtual time in nanoseconds.
    now: u64,
    phase: usize,
    /// Number of threads that have arrived to wait for a phase.
    arrivals: usize,
    /// The thread whose end has ended the last turn. The next turn starts after a join of that thread, because the
    /// memory that it frees affects the addresses of later allocations.
    ending: Option<JoinHandle<()>>,
}

struct Logical {
    system: Option<Thread>,
    join: Option<JoinHandle<()>>,
    status: Status,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Status {
    Ready,
    /// Waits for a wake-up at this address, or until this time.
    Waiting {
        address: usize,
        until: Option<u64>,
    },
    /// Waits until all others wait.
    Last,
    Ended,
}

/// Addresses for the waits of the simulation itself; no object of a program has these addresses.
const PHASE: usize = 1;
const SLEEP: usize = 2;
const ARRIVALS: usize = 3;
const FIRST_END: usize = 4;

/// Runs `f` as the first logical thread of a simulation, which has begun when it calls `f`. For
/// [`simulate`](super::simulate).
pub(crate) fn run<R>(seed: u64, mean_turn: u64, f: impl FnOnce() -> R) -> R {
    let _simulation = SIMULATION.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let first = Logical { system: Some(thread::current()), join: None, status: Status::Ready };
    *state() = State::new(seed, mean_turn);
    state().threads.push(first);
    CURRENT.store(0, Ordering::Release);
    THIS.set(0);
    let _end = EndSimulation;
    f()
}

struct EndSimulation;

impl Drop for EndSimulation {
    fn drop(&mut self) {
        THIS.set(NONE);
        CURRENT.store(NONE, Ordering::Release);
    }
}

/// Returns the number of the calling thread, if it is a logical thread that has not ended.
pub(crate) fn this() -> Option<usize> {
    let this = THIS.get();
    (this != NONE).then_some(this)
}

/// Returns the virtual time in nanoseconds.
pub(crate) fn now() -> u64 {
    state().now
}

/// Advances the virtual time.
pub fn pass(nanos: u64) {
    let mut state = state();
    state.now += nanos;
    state.wake_overdue();
}

/// Sleeps for a span of virtual time. Time passes when all threads wait.
pub fn sleep(nanos: u64) {
    let until = now() + nanos;
    while now() < until {
        wait(SLEEP, Some(until), || true);
    }
}

/// Ends the turn of the calling thread at random. Called before each access.
pub(crate) fn yield_perhaps() {
    let Some(this) = this() else { return };
    let mut state = state();
    let mean_turn = state.mean_turn;
    if state.random() % mean_turn == 0 {
        state.yield_to_next(this);
    }
}

/// Ends the turn of the calling thread.
pub(crate) fn yield_now() {
    if let Some(this) = this() {
        state().yield_to_next(this);
    }
}

/// Waits for a [`wake`] at `address`, or until the time `until`. Returns at once if `should_wait` returns false.
pub(crate) fn wait(address: usize, until: Option<u64>, should_wait: impl FnOnce() -> bool) {
    let Some(this) = this() else { return };
    let mut state = state();
    if should_wait() && until.is_none_or(|until| until > state.now) {
        state.threads[this].status = Status::Waiting { address, until };
        state.yield_to_next(this);
    }
}

/// Wakes one thread that waits at `address`, or all.
pub(crate) fn wake(address: usize, all: bool) {
    let mut state = state();
    let here = |thread: &&mut Logical| matches!(thread.status, Status::Waiting { address: at, .. } if at == address);
    let waiting = state.threads.iter_mut().filter(here);
    waiting.take(if all { usize::MAX } else { 1 }).for_each(|thread| thread.status = Status::Ready);
}

/// Waits until a phase has started.
pub fn wait_for_phase(phase: usize) {
    state().arrivals += 1;
    wake(ARRIVALS, true);
    while state().phase < phase {
        wait(PHASE, None, || true);
    }
}

/// Starts a phase.
pub fn begin_phase(phase: usize) {
    state().phase = phase;
    wake(PHASE, true);
}

/// Waits until `arrivals` threads wait for the next phase, and then until every other thread waits.
pub fn settle(arrivals: usize) {
    while state().arrivals < arrivals {
        wait(ARRIVALS, None, || true);
    }
    state().arrivals -= arrivals;
    let this = this().expect("a logical thread");
    let mut state = state();
    state.threads[this].status = Status::Last;
    state.yield_to_next(this);
}

/// Starts a logical thread, which gets its first turn later. Returns its number.
pub(crate) fn spawn(builder: thread::Builder, f: impl FnOnce() + Send + 'static) -> std::io::Result<usize> {
    let number = {
        let mut state = state();
        state.threads.push(Logical { system: None, join: None, status: Status::Ended });
        state.threads.len() - 1
    };
    let begun = Arc::new(Barrier::new(2));
    let begins = begun.clone();
    let join = builder.spawn(move || {
        // Initialised before all other thread-locals, so that it is dropped after them. Their destructors then run in
        // turns.
        END.with(|_| ());
        THIS.set(number);
        begins.wait();
        wait_for_turn(number);
        f();
    })?;
    // Wait until the start of the thread has made all its allocations.
    begun.wait();
    let system = Some(join.thread().clone());
    state().threads[number] = Logical { system, join: Some(join), status: Status::Ready };
    Ok(number)
}

/// Waits for the end of a logical thread.
pub(crate) fn join(number: usize) {
    while state().threads[number].status != Status::Ended {
        wait(end_of(number), None, || true);
    }
}

/// Returns the address at which threads wait for the end of thread `number`.
fn end_of(number: usize) -> usize {
    FIRST_END + number
}

/// A thread-local whose destructor ends the logical thread.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        let Some(this) = this() else { return };
        THIS.set(NONE);
        wake(end_of(this), true);
        let mut state = state();
        state.threads[this].status = Status::Ended;
        state.ending = state.threads[this].join.take();
        let next = state.choose();
        state.give_turn(next);
    }
}

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn wait_for_turn(number: usize) {
    while CURRENT.load(Ordering::Acquire) != number {
        thread::park();
    }
    let ending = state().ending.take();
    if let Some(ending) = ending {
        ending.join().expect("a logical thread catches panics");
    }
}

trait Turns {
    fn yield_to_next(self, this: usize);
}

impl Turns for MutexGuard<'_, State> {
    /// Gives the turn to another thread, and waits for the next turn of the calling thread.
    fn yield_to_next(mut self, this: usize) {
        let next = self.choose();
        if next != this {
            self.give_turn(next);
            drop(self);
            wait_for_turn(this);
        }
    }
}

impl State {
    const fn new(seed: u64, mean_turn: u64) -> Self {
        // An odd number, because xorshift maps zero to zero.
        let random = seed.wrapping_mul(2).wrapping_add(1);
        Self { threads: Vec::new(), random, mean_turn, now: 0, phase: 0, arrivals: 0, ending: None }
    }

    fn random(&mut self) -> u64 {
        // Xorshift.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random >> 11
    }

    /// Returns a random ready thread. If there is none, advances the time until there is one.
    fn choose(&mut self) -> usize {
        loop {
            let ready = self.threads.iter().filter(|thread| thread.status == Status::Ready).count() as u64;
            if ready > 0 {
                let nth = (self.random() % ready) as usize;
                let ready = self.threads.iter().enumerate().filter(|(_, thread)| thread.status == Status::Ready);
                return ready.map(|(number, _)| number).nth(nth).expect("there are `ready` such threads");
            }
            if let Some(last) = self.threads.iter().position(|thread| thread.status == Status::Last) {
                self.threads[last].status = Status::Ready;
                return last;
            }
            let until = self.threads.iter().filter_map(|thread| match thread.status {
                Status::Waiting { until, .. } => until,
                _ => None,
            });
            let Some(first) = until.min() else {
                // A panic would unwind only this thread, and the others would wait for ever.
                let statuses: Vec<_> = self.threads.iter().map(|thread| thread.status).collect();
                eprintln!("all logical threads wait for each other: {statuses:?}");
                std::process::abort();
            };
            self.now = first;
            self.wake_overdue();
        }
    }

    fn wake_overdue(&mut self) {
        for thread in &mut self.threads {
            if let Status::Waiting { until: Some(until), .. } = thread.status
                && until <= self.now
            {
                thread.status = Status::Ready;
            }
        }
    }

    fn give_turn(&mut self, next: usize) {
        CURRENT.store(next, Ordering::Release);
        if let Some(system) = &self.threads[next].system {
            system.unpark();
        }
    }
}
