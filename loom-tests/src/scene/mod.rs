//! What models and scenarios are made of: a shard's core, threads that act on it, and an account of what became of
//! timers.

#[path = "on_clock.rs"]
mod on_clock;
#[path = "sleep.rs"]
mod sleep;

use std::any::Any;
use std::cell::RefCell;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize as PlainCount, Ordering::Relaxed as Plain};
use std::time::Duration;

use crate::clock;
use crate::shard::Shard;
use crate::shard::core::{Armed, Core, Found};
use crate::shard::entry::{Callback, Recur, Role};
use crate::shard::entry::{Entry, Notice};
use crate::shard::lease::Lease;
use crate::shard::local::{self, Record};
use crate::shard::memory::Cache;
use crate::shard::rounds::Rounds;
use crate::shard::run::Host;
use crate::sync::{Arc, AtomicU64, Ordering, thread};
use crate::wheel::Levels;
pub(crate) use on_clock::{Callback as Due, Clock, OnClock};
pub(crate) use sleep::{Sleep, Task};

/// A tick after all others in any model.
const END: u64 = 1000;

/// What became of timers: a callback notes its run, and the drop of what it holds.
#[derive(Clone)]
pub(crate) struct Tally(Arc<Counts>);

/// Not loom's: a count orders nothing and is no step of a thread, but for [`Tally::step`]. An ordering of the account would
/// stand in for one that a protocol lacks.
#[derive(Default)]
struct Counts {
    run: PlainCount,
    dropped: PlainCount,
    cancelled: PlainCount,
    unfired: PlainCount,
    completed: PlainCount,
    ended: PlainCount,
    last: PlainCount,
    /// Timers of futures.
    scheduled: PlainCount,
    /// Timers that came into a batch, and those that have left it.
    begun: PlainCount,
    settled: PlainCount,
    /// Holds nothing: see [`Tally::step`].
    step: AtomicU64,
}

impl Tally {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Counts::default()))
    }

    /// A callback that runs once.
    pub(crate) fn once(&self) -> Callback {
        let held = Held(self.clone());
        Callback::once(move || {
            held.0.count_run();
        })
    }

    /// A callback that runs every `period`, up to `runs` times.
    pub(crate) fn repeating(&self, period: u64, runs: usize) -> Callback {
        Callback::repeating(Box::new(Every { held: Held(self.clone()), period, runs }))
    }

    /// Lets a thread that reads the account come between a thread that writes it and what that has done before. Loom tries
    /// both orders only of what changes the same atomic. Relaxed, so that it orders nothing else.
    fn step(&self) {
        self.0.step.fetch_add(0, Ordering::Relaxed);
    }

    /// Notes a run.
    pub(crate) fn count_run(&self) {
        self.step();
        self.0.run.fetch_add(1, Plain);
    }

    pub(crate) fn run(&self) -> usize {
        self.0.run.load(Plain)
    }

    pub(crate) fn dropped(&self) -> usize {
        self.step();
        self.0.dropped.load(Plain)
    }

    pub(crate) fn cancelled(&self) -> usize {
        self.0.cancelled.load(Plain)
    }

    pub(crate) fn unfired(&self) -> usize {
        self.0.unfired.load(Plain)
    }

    pub(crate) fn completed(&self) -> usize {
        self.0.completed.load(Plain)
    }

    /// Runs that the host has reported.
    pub(crate) fn ended(&self) -> usize {
        self.step();
        self.0.ended.load(Plain)
    }

    /// How many of the handles, and of those that closed the shard, found that nothing keeps it any more.
    pub(crate) fn last(&self) -> usize {
        self.0.last.load(Plain)
    }

    fn count_last(&self, last: bool) -> bool {
        if last {
            self.0.last.fetch_add(1, Plain);
        }
        last
    }

    /// How many timers futures have had.
    pub(crate) fn scheduled(&self) -> usize {
        self.0.scheduled.load(Plain)
    }

    /// How many timers have come into a batch, and how many have left it.
    pub(crate) fn in_batches(&self) -> (usize, usize) {
        (self.0.begun.load(Plain), self.0.settled.load(Plain))
    }

    fn add(&self, record: &Record) {
        let Counts { completed, cancelled, scheduled, settled, .. } = &*self.0;
        for (sum, count) in [(completed, &record.completed), (cancelled, &record.cancelled)] {
            if count.get() > 0 {
                sum.fetch_add(count.get(), Plain);
            }
        }
        for (sum, count) in [(scheduled, &record.scheduled), (settled, &record.settled)] {
            sum.fetch_add(count.get(), Plain);
        }
        self.count_last(record.last.get() > 0);
    }
}

/// Counts its drop.
struct Held(Tally);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.0.dropped.fetch_add(1, Plain);
    }
}

struct Every {
    held: Held,
    period: u64,
    runs: usize,
}

impl Recur for Every {
    fn run(&mut self, due: u64) -> Option<u64> {
        self.held.0.count_run();
        self.runs -= 1;
        (self.runs > 0).then_some(due + self.period)
    }
}

/// A shard whose threads may keep handles to its entries, as the crate's do through pinned memory.
#[derive(Clone)]
pub(crate) struct Scene {
    shard: Arc<Shard>,
    pub(crate) tally: Tally,
}

impl Deref for Scene {
    type Target = Shard;

    fn deref(&self) -> &Shard {
        &self.shard
    }
}

/// The one handle of an entry.
pub(crate) struct Handle(pub(crate) u32);

/// A thread with its own cache, as a host for callbacks.
pub(crate) struct Worker<'a> {
    scene: &'a Scene,
    now: u64,
    cache: RefCell<Cache>,
    /// The deadlines of the runs it made.
    pub(crate) ran: RefCell<Vec<u64>>,
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self::with_spare(usize::MAX)
    }

    /// With this many entries of which the memory is not given back.
    pub(crate) fn with_spare(spare: usize) -> Self {
        Self { shard: Arc::new(Shard::new(Core::new(Some(0), spare))), tally: Tally::new() }
    }

    /// The driver's half.
    pub(crate) fn rounds(&self) -> Rounds {
        Rounds::new(Levels::new_ahead(0, &[2]).expect("a valid level"))
    }

    pub(crate) fn worker(&self, now: u64) -> Worker<'_> {
        Worker { scene: self, now, cache: RefCell::new(Cache::new()), ran: RefCell::default() }
    }

    /// Starts a thread that acts in the scene.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        act: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> thread::JoinHandle<T> {
        let scene = self.clone();
        thread::spawn(move || act(&scene))
    }

    /// Starts a thread that drives at this tick, until nothing is left to do there.
    pub(crate) fn spawn_driver(&self, mut rounds: Rounds, now: u64) -> thread::JoinHandle<()> {
        self.spawn(move |scene| scene.drive(&mut rounds, &scene.worker(now)))
    }

    /// Makes a timer and sends it to the driver.
    pub(crate) fn schedule(&self, cache: &mut Cache, callback: Callback, deadline: u64) -> Option<Handle> {
        let Armed { index, notice, .. } = self.core.arm(cache, callback, deadline, 0).ok()?;
        self.tell(index, notice, deadline);
        Some(Handle(index))
    }

    /// Takes a block from the slab, and returns its first entry. The others are nobody's.
    pub(crate) fn carve(&self) -> u32 {
        let mut first = None;
        self.core.slab.take(|index| first = Some(index)).expect("an open slab");
        first.expect("some entries")
    }

    pub(crate) fn entry(&self, handle: &Handle) -> &Entry {
        self.core.slab.get(handle.0)
    }

    pub(crate) fn cancel(&self, handle: &Handle) -> bool {
        self.act(&mut Cache::new(), 0, || self.shard.cancel(self.entry(handle))).0
    }

    /// Starts a thread that cancels a timer, drops its handle, and gives back what is in its cache.
    pub(crate) fn cancel_elsewhere(&self, handle: Handle, mut cache: Cache) -> thread::JoinHandle<()> {
        self.spawn(move |scene| {
            assert!(scene.cancel(&handle));
            scene.release(handle, &mut cache);
            scene.core.give_back(&mut cache);
        })
    }

    pub(crate) fn reset(&self, handle: &Handle, deadline: u64, now: u64) -> bool {
        let due = clock::Due { tick: deadline, now };
        self.act(&mut Cache::new(), now, || self.shard.reset(self.entry(handle), handle.0, due)).0
    }

    /// Has the calling thread do what it does with a handle or a future, at the tick `now`.
    fn act<R>(&self, cache: &mut Cache, now: u64, act: impl FnOnce() -> R) -> (R, Record) {
        self.act_as(cache, now, false, act)
    }

    /// The same; `in_passing` if the thread is ending.
    fn act_as<R>(&self, cache: &mut Cache, now: u64, in_passing: bool, act: impl FnOnce() -> R) -> (R, Record) {
        clock::set_present(now);
        let (result, record) = local::act(&self.shard, cache, in_passing, act);
        self.tally.add(&record);
        (result, record)
    }

    /// Tells the driver what it must know of a new deadline.
    pub(crate) fn tell(&self, index: u32, notice: Notice, deadline: u64) {
        self.core.tell(index, notice, deadline, || 0);
    }

    /// Drops a handle. True if it was the last that kept a closed shard.
    pub(crate) fn release(&self, handle: Handle, cache: &mut Cache) -> bool {
        let (shard, entry) = (NonNull::from(&*self.shard), NonNull::from(self.entry(&handle)));
        // SAFETY: it is the one handle of the entry.
        let release = || unsafe { Shard::release(Lease::new(shard, entry, handle.0)) };
        self.act(cache, 0, release).1.last.get() > 0
    }

    /// Cancels a timer, and drops its handle. True if it had not ended.
    pub(crate) fn cancel_and_release(&self, handle: Handle, cache: &mut Cache) -> bool {
        let (shard, entry) = (NonNull::from(&*self.shard), NonNull::from(self.entry(&handle)));
        let lease = Lease::new(shard, entry, handle.0);
        // SAFETY: it is the one handle of the entry.
        self.act(cache, 0, || unsafe { Shard::cancel_and_release(&lease) }).0
    }

    /// Shuts down. True if no handle is left.
    pub(crate) fn close(&self, now: u64) -> bool {
        let unpinned = self.tally.count_last(self.core.close().unpinned);
        if unpinned {
            self.shard.set_gone();
        }
        self.claim(now, true);
        unpinned
    }

    /// Takes what there is in a closed core, as a shutdown does; with `wait` when what has started is over.
    pub(crate) fn claim(&self, now: u64, wait: bool) {
        self.core.claim_wakers(now, |found| self.found(found));
        let running = self.core.claim_closures(now, |found| self.found(found));
        self.core.claim_running(running, wait, now, |found| self.found(found));
    }

    fn found(&self, found: Found) {
        match found {
            Found::Unfired { deadline, callback, queued } => {
                self.tally.0.settled.fetch_add(queued.into(), Plain);
                if callback.role() == Role::Wake {
                    self.tally.0.completed.fetch_add(1, Plain);
                    callback.run(deadline);
                } else {
                    self.tally.0.unfired.fetch_add(1, Plain);
                }
            }
            Found::Ended => _ = self.tally.0.cancelled.fetch_add(1, Plain),
        }
    }

    /// Makes rounds until there is nothing more to do at this tick, running what is due.
    pub(crate) fn drive(&self, rounds: &mut Rounds, worker: &Worker<'_>) {
        self.hand_over(rounds, worker.now, |due| worker.run(&due));
    }

    /// The same with a `worker` that is given what is due. As the driver does, stops at the end of a turn when the shard is
    /// closed.
    pub(crate) fn hand_over(&self, rounds: &mut Rounds, now: u64, mut worker: impl FnMut(Vec<u32>)) {
        loop {
            rounds.begin(&self.core, now);
            let mut over = false;
            while !over && !self.core.is_closing() {
                let mut due = Vec::new();
                over = rounds.turn(&self.core, &mut due);
                worker(due);
            }
            if !over {
                break;
            }
            while rounds.prepare(&self.core) {}
            if !rounds.rest(&self.core) && self.core.intake_is_empty() {
                break;
            }
        }
    }

    /// Makes rounds as above, and returns what is due at this tick.
    pub(crate) fn batch(&self, rounds: &mut Rounds, now: u64) -> Vec<u32> {
        let mut batch = Vec::new();
        self.hand_over(rounds, now, |due| batch.extend(due));
        batch
    }

    /// Drives and sleeps until the shard is closed, as the driver's thread does.
    pub(crate) fn drive_until_closed(&self, rounds: &mut Rounds, worker: &Worker<'_>) {
        while !self.core.is_closing() {
            self.drive(rounds, worker);
            self.sleep(rounds, worker);
        }
    }

    /// Drives until `runs` callbacks have run, sleeping in between: for good, as time stands still.
    pub(crate) fn drive_until(&self, rounds: &mut Rounds, worker: &Worker<'_>, runs: usize) {
        loop {
            self.drive(rounds, worker);
            if self.tally.run() == runs {
                return;
            }
            self.sleep(rounds, worker);
        }
    }

    /// Sleeps as the driver does, at an hour at which nothing comes by itself.
    pub(crate) fn sleep(&self, rounds: &Rounds, worker: &Worker<'_>) {
        let timeout = |tick| (tick <= worker.now).then_some(Duration::ZERO);
        let idle = || rounds.is_idle(&self.core) && !self.core.is_closing();
        self.core.bell.sleep(worker.now, rounds.next_deadline(), timeout, idle);
    }

    /// Says that each timer of a future has ended once, and each that came into a batch has left it once.
    pub(crate) fn assert_sleeps_accounted(&self) {
        let tally = &self.tally;
        assert_eq!(tally.completed() + tally.cancelled(), tally.scheduled(), "each ends once");
        let (begun, settled) = tally.in_batches();
        assert_eq!(begun, settled, "each leaves its batch once");
    }

    /// Says that the wheel is empty and every entry is free, once, when the caches have given back what they have.
    pub(crate) fn assert_all_free<'a>(&self, rounds: &mut Rounds, caches: impl IntoIterator<Item = &'a mut Cache>) {
        let collector = self.worker(END);
        caches.into_iter().for_each(|cache| self.core.give_back(cache));
        self.drive(rounds, &collector);
        assert_eq!(rounds.next_deadline(), u64::MAX, "nothing is left in the wheel");
        assert!(collector.ran.borrow().is_empty(), "all that had to run has run");
        self.core.give_back(&mut collector.into_cache());
        let mut found = Vec::new();
        while self.core.pool.pop(&self.core.slab, |index| found.push(index)) {}
        while self.core.slab.adopt(u32::MAX, |index| found.push(index)) {}
        assert_eq!(found.len(), self.core.slab.len(), "each entry is free, or given back to the system");
        found.sort_unstable();
        found.dedup();
        assert_eq!(found.len(), self.core.slab.len(), "each is free once");
    }
}

impl Worker<'_> {
    /// Runs a batch.
    pub(crate) fn run(&self, batch: &[u32]) {
        let counts = &self.scene.tally.0;
        counts.begun.fetch_add(batch.len(), Plain);
        for &index in batch {
            let settled = self.scene.core.run(index, self.now, self);
            counts.settled.fetch_add(settled.into(), Plain);
        }
    }

    pub(crate) fn into_cache(self) -> Cache {
        self.cache.into_inner()
    }
}

impl Host for Worker<'_> {
    type Run = ();

    fn now(&self) -> u64 {
        self.now
    }

    fn sent(&self, _deadline: u64) {}

    fn started(&self, deadline: u64, role: Role) {
        assert!(deadline <= self.now, "never early");
        self.ran.borrow_mut().push(deadline);
        if role != Role::Repeat {
            self.completed();
        }
    }

    fn returned(&self, (): &mut ()) {}

    fn ended(&self, (): ()) {
        self.scene.tally.step();
        self.scene.tally.0.ended.fetch_add(1, Plain);
    }

    fn completed(&self) {
        self.scene.tally.0.completed.fetch_add(1, Plain);
    }

    fn cancelled(&self) {
        self.scene.tally.0.cancelled.fetch_add(1, Plain);
    }

    fn panicked(&self, payload: Box<dyn Any + Send>) {
        std::panic::resume_unwind(payload);
    }

    fn recycle(&self, index: u32) {
        self.scene.core.recycle(&mut self.cache.borrow_mut(), index);
    }
}
