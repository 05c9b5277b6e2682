//! A shard: a wheel, the thread that drives it, and the lock-free ways in.
//!
//! | file       | concern                                                                          | under loom |
//! |------------|----------------------------------------------------------------------------------|------------|
//! | [`entry`]  | one timer: the state machine, and who may touch what                             | yes        |
//! | [`memory`] | where entries live, and how those that are free come to who needs one            | yes        |
//! | `intake`   | entries on their way to the driver                                               | yes        |
//! | `wakeup`     | the driver's sleep, and how it is woken                                          | yes        |
//! | `call_stack` | which callbacks a thread is inside of                                            | yes        |
//! | `core`     | the shared half of a shard, and each step of a timer's way through it            | yes        |
//! | `run`      | what a worker does with a due timer                                              | yes        |
//! | `rounds`   | the driver's half: the wheel, and a bounded turn                                 | yes        |
//! | `trim`     | giving memory back to the system                                                 | yes        |
//! | `registry`, `thread` | the threads that use the shard, their counters and caches               | yes, no    |
//! | `raw`    | what the owner of a handle does with its entry                                   | yes        |
//! | `hold`, `coop` | what a future has of a shard, and how it completes                           | yes        |
//! | `limit`    | how many timers may be pending                                                   |            |
//! | `batch`, `stragglers` | due timers on their way through the executor, and those that take long |            |
//! | `slow`     | reports callbacks that take long                                                 |            |
//! | `virtual_time` | what a shard has in virtual time only                                        |            |
//! | `driver`   | what drives the shard                                                            |            |
//! | `loan`     | where the driver lies while it is lent to a worker                               | yes        |
//! | `load`     | whether there is enough to do for that                                           |            |
//! | `drive`, `driver_thread` | the threads that drive, and how a shutdown waits for the driver's own |            |
//!
//! This file puts them together, with the clock and the counters, which loom does not know.

mod batch;
mod call_stack;
mod coop;
mod core;
mod drive;
mod driver;
mod driver_thread;
mod entry;
mod intake;
mod limit;
mod load;
mod loan;
mod memory;
mod raw_handle;
mod registry;
mod run;
mod sleep_entry;
mod slow;
mod stragglers;
mod thread_state;
mod trim;
mod turn;
mod virtual_time;
mod wakeup;

use std::any::Any;
use std::io::{self, Write};
use std::mem;
use std::panic::{self, AssertUnwindSafe, RefUnwindSafe};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread;
use std::time::Duration;

use crossbeam_utils::CachePadded;

pub(crate) use self::coop::{Coop, Progress};
pub(crate) use self::core::Running;
use self::core::{Armed, Closing, Core, Found};
pub(crate) use drive::drive;
pub(crate) use driver_thread::DriverThread;
use entry::state::WAKER;
pub(crate) use entry::{Callback, Entry, PeriodicCallback, Role};
pub(crate) use limit::Limit;
use memory::Refusal;
pub(crate) use raw_handle::RawHandle;
use registry::{Registered, Registry};
use run::{RunHooks, catch_panic};
pub(crate) use sleep_entry::SleepEntry;
pub use slow::SlowCallback;
pub(crate) use slow::SlowHook;
use slow::{Measuring, SlowMonitor};
use thread_state::ThreadState;
use virtual_time::VirtualTime;

use crate::clock::{Deadline, Quiescence, Ticks};
use crate::error::Rejection;
use crate::stats::{self, ShardStats, ThreadCounters};
use crate::system::Process;

/// For how long what nobody waits for is left to do: half of what is promised.
const LAZY_WAKEUP: Duration = Duration::from_millis(50);

/// As many free entries are never given back to the system: 1 MiB.
const MIN_RETAINED: usize = 1 << 14;

/// The counters of so many ended threads are retained, with 4 KiB each if they have run callbacks.
const RETAINED_COUNTERS: usize = 16;

/// Returns the first with the smallest number. Looks no further than to the first zero.
fn fewest<T>(numbered: impl Iterator<Item = (usize, T)>) -> Option<(usize, T)> {
    let mut fewest = None;
    for (number, item) in numbered {
        if fewest.as_ref().is_none_or(|&(least, _)| number < least) {
            fewest = Some((number, item));
        }
        if number == 0 {
            break;
        }
    }
    fewest
}

/// Returns an id that no other shard and no other service has, ever. Not zero.
pub(crate) fn new_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    // Relaxed: a number for itself.
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// What is called with the payload of a panic.
pub(crate) type PanicHook = dyn Fn(Box<dyn Any + Send>) + Send + Sync;

/// One shard of a service.
pub(crate) struct Shard {
    core: Core,
    pub(crate) ticks: Ticks,
    /// Unlike any other shard's, ever.
    id: u64,
    /// The one that has the driver.
    process: Process,
    this: Weak<Shard>,
    registry: Registry,
    /// The counters of threads whose thread-locals are gone.
    common: Arc<Registered>,
    /// How many living threads schedule here. On a line of its own: threads that come and go write it.
    homes: CachePadded<AtomicUsize>,
    virtual_time: Option<VirtualTime>,
    limit: Option<Arc<Limit>>,
    on_panic: Option<Arc<PanicHook>>,
    on_slow: Option<SlowMonitor>,
    /// What there was when the shard was closed, by a shutdown or by its driver.
    closing: OnceLock<Closing>,
    /// The driver is to panic, when it has taken a timer out of the wheel.
    #[cfg(test)]
    pub(crate) fault: std::sync::atomic::AtomicBool,
}

impl Shard {
    /// `needs_this_thread` tells whether the callbacks may have to wait until the calling thread is free.
    pub(crate) fn new(
        ticks: Ticks,
        limit: Option<Arc<Limit>>,
        on_panic: Option<Arc<PanicHook>>,
        on_slow: Option<SlowMonitor>,
        needs_this_thread: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Arc<Self> {
        let registry = Registry::new(RETAINED_COUNTERS);
        Arc::new_cyclic(|this| Self {
            // In virtual time the driver looks when the clock is moved.
            core: Core::new(ticks.manual().is_none().then(|| ticks.count(LAZY_WAKEUP)), MIN_RETAINED),
            id: new_id(),
            process: Process::this(),
            this: this.clone(),
            common: registry.register(),
            registry,
            homes: CachePadded::new(AtomicUsize::new(0)),
            virtual_time: ticks.manual().map(|clock| VirtualTime::new(clock, this.clone(), needs_this_thread)),
            ticks,
            limit,
            on_panic,
            on_slow,
            closing: OnceLock::new(),
            #[cfg(test)]
            fault: false.into(),
        })
    }

    /// Accepts a timer, in the shard that is the calling thread's home in `service`; see [`thread_state::with_home`]. `write` writes
    /// its callback, in this role, into its entry. If the timer is refused, what may have been written must be treated as
    /// uninitialised. The lease that comes back must be [`release`](Self::release)d.
    ///
    /// `due` is called last: a clock is read in order, so it is best read while nothing else is to be waited for.
    #[inline(always)]
    pub(crate) fn schedule<'a>(
        service: u64,
        choose: impl FnOnce() -> &'a Arc<Shard>,
        due: impl FnOnce(&Ticks) -> Deadline,
        role: Role,
        write: impl FnOnce(*mut Callback),
    ) -> Result<(RawHandle, Deadline), Rejection> {
        thread_state::with_home(
            service,
            || &**choose(),
            |thread| {
                // The caller has the service, so the shard is there.
                let shard = thread.shard();
                // SAFETY: as above.
                let this = unsafe { shard.as_ref() };
                let (Armed { entry, index, .. }, due) = this.accept(thread, due, role, write)?;
                Ok((RawHandle::new(shard, entry.into(), index), due))
            },
        )
    }

    #[inline(always)]
    fn accept(
        &self,
        thread: &mut ThreadState,
        due: impl FnOnce(&Ticks) -> Deadline,
        role: Role,
        write: impl FnOnce(*mut Callback),
    ) -> Result<(Armed<'_>, Deadline), Rejection> {
        if self.limit.as_ref().is_some_and(|limit| !limit.acquire()) {
            thread.count(|counters| &counters.rejected);
            return Err(Rejection::Full);
        }
        let mut known = None;
        let when = || {
            let due = due(&self.ticks);
            let (pinned, now) = self.ticks.pin(due.now);
            known = Some((due, pinned));
            (due.tick, now)
        };
        let armed = self.core.arm_with(&mut thread.cache, role, write, when);
        match (armed, known) {
            (Ok(armed), Some((due, pinned))) => {
                thread.count(|counters| &counters.scheduled);
                self.notify_driver(thread, armed.index, armed.notice, due.tick, pinned);
                Ok((armed, due))
            }
            (Ok(_), None) => unreachable!("an entry is armed for a deadline"),
            (Err(refusal), _) => Err(self.refused(thread, refusal)),
        }
    }

    #[cold]
    fn refused(&self, thread: &ThreadState, refusal: Refusal) -> Rejection {
        self.release_permit();
        thread.count(|counters| &counters.rejected);
        match refusal {
            Refusal::Closed => Rejection::Shutdown,
            Refusal::NoMemory => Rejection::OutOfMemory,
        }
    }

    /// Counts a timer that was refused before it came to any shard, in the shard that is the calling thread's home in
    /// `service`.
    pub(crate) fn reject<'a>(service: u64, choose: impl FnOnce() -> &'a Arc<Shard>) {
        thread_state::with_home(service, || &**choose(), |thread| thread.count(|counters| &counters.rejected));
    }

    /// Returns the shard with the fewest living threads at home, one of which the calling thread is from now on; of
    /// several, the first from `turn` on. See [`thread_state::with_home`]. Lock-free.
    pub(crate) fn choose_home(shards: &[Arc<Shard>], turn: usize) -> &Arc<Shard> {
        loop {
            let (before, from) = shards.split_at(turn % shards.len());
            // Relaxed, as everywhere: a number for itself.
            let homes = from.iter().chain(before).map(|shard| (shard.homes.load(Ordering::Relaxed), shard));
            let (homes, shard) = fewest(homes).expect("a service has shards");
            // Of threads that choose at the same time one succeeds, and the others look again.
            if shard.homes.compare_exchange(homes, homes + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                return shard;
            }
        }
    }

    /// A thread that has chosen this shard as its home schedules here no more.
    fn leave_home(&self) {
        self.homes.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether the calling thread is in another process than the driver, the child of a fork. What is pending here is the
    /// parent's then: to the child every timer has ended, and it ends none, as it must not drop what they hold.
    #[inline]
    pub(crate) fn is_inherited(&self) -> bool {
        self.process.is_gone()
    }

    /// Whether the callback of an entry in a batch wakes a task, which the driver does itself.
    fn wakes(&self, index: u32) -> bool {
        self.core.slab.get(index).state().has(WAKER)
    }

    /// Drops a callback that wakes a task, and will not be called.
    fn discard_waker(&self, callback: Callback) {
        self.drop_unfired(callback);
    }

    /// Runs foreign code for a shard that the caller has released. If that is gone, there is nobody to tell of a panic.
    #[inline]
    fn catch_panic_after_release(id: u64, f: impl FnOnce()) {
        if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(f)) {
            Self::report_panic_after_release(id, payload);
        }
    }

    #[cold]
    fn report_panic_after_release(id: u64, payload: Box<dyn Any + Send>) {
        match thread_state::shard(id) {
            Some(shard) => shard.report_panic(payload),
            // Its drop may panic as well: better leaked.
            None => mem::forget(payload),
        }
    }

    /// Counts a future's timer that ends with the shard.
    fn complete(&self) {
        thread_state::with(self, |thread| thread.count(|counters| &counters.completed));
    }

    /// Runs the callback of an entry in a batch of what was due at `due`.
    fn run(&self, index: u32, due: u64) {
        // A callback may fork, and the child comes here when it returns.
        if self.is_inherited() {
            return;
        }
        // The one branch that runs pay where there is no hook: with one, they take a path of their own.
        let was_in_flight = match &self.on_slow {
            None => self.core.run(index, due, &self),
            Some(monitor) => self.core.run(index, due, &Measuring { shard: self, monitor }),
        };
        if was_in_flight {
            self.finish_in_flight();
        }
    }

    /// Ends a timer in a batch of what was due at `due` that is dropped unrun, unless it was moved meanwhile.
    fn discard(&self, index: u32, due: u64) {
        if !self.is_inherited() && self.core.discard(index, due, &self) {
            self.finish_in_flight();
        }
    }

    /// In virtual time, has the driver look for a timer that is due at once; others wait until the clock is moved.
    #[inline]
    fn request_if_due(&self, deadline: u64) {
        if let Some(quiescence) = self.quiescence() {
            self.request_in_virtual_time(quiescence, deadline);
        }
    }

    #[cold]
    fn request_in_virtual_time(&self, quiescence: &Quiescence, deadline: u64) {
        if deadline <= self.ticks.now_tick() {
            quiescence.request();
            self.core.wakeup.wake_by(0);
        }
    }

    /// A timer that was handed to the executor has run, or has ended otherwise.
    fn finish_in_flight(&self) {
        if let Some(quiescence) = self.quiescence() {
            quiescence.end();
        }
    }

    /// In virtual time only.
    #[inline]
    fn quiescence(&self) -> Option<&Quiescence> {
        self.virtual_time.as_ref().map(|time| &time.quiescence)
    }

    /// Drops what keeps a closed shard for its leases.
    ///
    /// # Safety
    /// The caller has released the last lease. `this` is not used any more.
    unsafe fn last_handle_released(this: NonNull<Self>) {
        // SAFETY: `close` left a count of the shard to its leases; and by this function's contract.
        drop(unsafe { Arc::from_raw(this.as_ptr()) });
    }

    /// Refuses new timers, and starts no callback any more; see [`Core::close`]. Returns how many closures may be claimed.
    pub(crate) fn close(this: &Arc<Self>) -> usize {
        let closing = this.closing.get_or_init(|| {
            // The count that the handles share.
            let pinned = Arc::into_raw(this.clone());
            let closing = this.core.close();
            if closing.unpinned {
                // SAFETY: the count made above; no lease has a part in it.
                drop(unsafe { Arc::from_raw(pinned) });
            }
            closing
        });
        closing.closures + closing.running
    }

    /// Completes the sleeps of a closed shard.
    pub(crate) fn complete_sleeps(&self) {
        if self.closing.get().is_some_and(|closing| closing.wakers > 0) {
            self.core.claim_wakers(self.ticks.now_tick(), |found| self.found(found, &mut |_, _| ()));
        }
    }

    /// Takes the pending timers of a closed shard, with their ticks, and returns those that are running.
    pub(crate) fn claim(&self, unfired: &mut impl FnMut(u64, Callback)) -> Running<'_> {
        self.core.claim_closures(self.ticks.now_tick(), |found| self.found(found, unfired))
    }

    /// Takes those that were running, when they have run; see [`Core::claim_running`].
    pub(crate) fn claim_running(&self, running: Running<'_>, wait: bool, unfired: &mut impl FnMut(u64, Callback)) {
        self.core.claim_running(running, wait, self.ticks.now_tick(), |found| self.found(found, unfired));
    }

    fn found(&self, found: Found, unfired: &mut impl FnMut(u64, Callback)) {
        match found {
            Found::Unfired { deadline, callback, dispatched } => {
                if dispatched {
                    self.finish_in_flight();
                }
                if callback.role() == Role::Waker {
                    self.complete();
                    catch_panic(&self, || callback.run(deadline));
                } else {
                    self.end(|counters| &counters.unfired);
                    unfired(deadline, callback);
                }
            }
            Found::Ended => self.end(|counters| &counters.cancelled),
        }
    }

    /// Drops a closure that will not run. Its panic goes no further.
    pub(crate) fn drop_unfired(&self, callback: Callback) {
        self.catch_panic(|| drop(callback));
    }

    /// Runs foreign code. Its panic goes no further.
    fn catch_panic(&self, f: impl FnOnce()) {
        catch_panic(&self, f);
    }

    /// The driver has panicked. The shard is closed: it refuses new timers, and its sleeps are over. Closures stay pending
    /// for the shutdown, which hands them back.
    fn driver_panicked(this: &Arc<Self>, payload: Box<dyn Any + Send>) {
        Self::close(this);
        this.complete_sleeps();
        let thread = thread::current();
        let message = format!(
            "corewheel: the thread {:?} of a shard has panicked, which is a defect of corewheel: {}. The shard is shut \
             down; its pending callbacks do not run, and are handed back by the timer's shutdown",
            thread.name().unwrap_or_default(),
            text_of(&*payload)
        );
        // Its drop may panic as well.
        catch_panic(&&**this, || drop(payload));
        if this.on_panic.is_none() {
            // Best effort: there may be no such stream.
            let _ = writeln!(io::stderr(), "{message}");
        }
        this.report_panic(Box::new(message));
    }

    /// Whether the shard may be waiting for the calling thread, its driver or inside one of its callbacks.
    pub(crate) fn is_on_this_thread(&self) -> bool {
        self.core.is_on_this_thread()
    }

    /// Whether the calling thread is inside a callback of this shard.
    pub(crate) fn is_inside_callback(&self) -> bool {
        self.core.is_inside_callback()
    }

    /// What has been done so far.
    pub(crate) fn stats(&self) -> ShardStats {
        let stats = self.registry.read();
        // Read last, so that no end is read for which the beginning is not: see `stats::pending`.
        stats.balanced(self.scheduled())
    }

    /// Returns how many timers are pending, without reading a histogram.
    pub(crate) fn pending(&self) -> u64 {
        let ended = self.registry.sum(ThreadCounters::ended, ShardStats::ended);
        stats::pending(self.scheduled(), ended)
    }

    fn scheduled(&self) -> u64 {
        self.registry.sum(|counters| counters.scheduled.get(), |folded| folded.scheduled)
    }

    /// Hands the payload of a panic to the hook. Whatever that does, it does not unwind.
    fn report_panic(&self, payload: Box<dyn Any + Send>) {
        thread_state::with(self, |thread| thread.count(|counters| &counters.panicked));
        let deliver = || match &self.on_panic {
            Some(hook) => hook(payload),
            None => drop(payload),
        };
        if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(deliver)) {
            // Its drop may panic as well, and so on: better leaked.
            mem::forget(payload);
        }
    }

    /// Counts the start of a run, and returns how late it is.
    #[inline]
    fn count_start(&self, deadline: u64, role: Role) -> Duration {
        if role == Role::Once {
            self.release_permit();
        }
        let lateness = self.ticks.lateness(deadline);
        // In this order, so that whoever sees the end of a timer sees its run, and how late that was.
        thread_state::with(self, |thread| {
            thread.late(lateness);
            thread.count(|counters| &counters.fired);
            if role != Role::Periodic {
                thread.count(|counters| &counters.completed);
            }
        });
        lateness
    }

    /// Counts an end, and frees the place that the timer had under `max_pending`.
    fn end(&self, which: impl FnOnce(&ThreadCounters) -> &crate::stats::Count) {
        self.release_permit();
        thread_state::with(self, |thread| thread.count(which));
    }

    /// Whether a timer that ends has a permit to give back.
    #[inline]
    fn is_limited(&self) -> bool {
        self.limit.is_some()
    }

    #[inline]
    fn release_permit(&self) {
        if let Some(limit) = &self.limit {
            limit.release();
        }
    }
}

// What `Timer`s, handles and futures share is a shard and its entries. A panic cannot leave them half changed: their state
// changes by single atomic steps, foreign code (a closure, a waker, a hook) is called between two such steps, and nothing is
// borrowed or locked meanwhile. `tests/unwind.rs` has the list of public types for which this makes it hold.
impl RefUnwindSafe for Shard {}
impl RefUnwindSafe for Entry {}

impl RunHooks for &Shard {
    type Run = ();

    fn now(&self) -> u64 {
        self.ticks.now_tick()
    }

    fn enqueued(&self, deadline: u64) {
        self.request_if_due(deadline);
    }

    #[inline]
    fn started(&self, deadline: u64, role: Role) {
        self.count_start(deadline, role);
    }

    #[inline]
    fn returned(&self, (): &mut ()) {}

    #[inline]
    fn ended(&self, (): ()) {}

    fn completed(&self) {
        self.end(|counters| &counters.completed);
    }

    fn cancelled(&self) {
        self.end(|counters| &counters.cancelled);
    }

    fn panicked(&self, payload: Box<dyn Any + Send>) {
        self.report_panic(payload);
    }

    fn recycle(&self, index: u32) {
        thread_state::with(self, |thread| self.core.recycle(&mut thread.cache, index));
    }
}

/// What a panic said, if it said something.
fn text_of(payload: &(dyn Any + Send)) -> &str {
    match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (None, Some(text)) => text,
        (None, None) => "it did not say why",
    }
}
