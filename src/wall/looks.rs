//! When the table of a wall timer is looked at, what then runs where, and the end.
//!
//! **Looks.** One repeating timer of the service *looks* while something is pending: it takes what is due, and has its
//! next run at the earliest time that is left. It holds one permit of `max_pending` all the time, so no later look is refused.
//! A look gives each closure to the service as a timer of its own, without a delay, which carries the closure's name. The
//! *run* of that timer claims the closure from the table. So until it starts, a closure can be cancelled or reset, and one
//! whose clock is set back waits anew. If `max_pending` refuses that timer, the look itself runs the closure.
//!
//! **Jumps.** When a clock jumps, `settle` sets the next look anew. A [`ClockWatch`] tells of jumps, or a manual clock.
//! Where neither does, looks come at least each `look_every`.
//!
//! **The lock.** No foreign code runs under the lock of the table. A reset of the looking timer may call the waker of a
//! [`Driver`](crate::Driver), so it comes after the lock, and two threads may reset in the wrong order. Each therefore
//! reads the version of the table before and after, and resets again if it has changed. The creation of the looking timer
//! wakes nothing, as its deadline is never.
//!
//! **The end.** The shutdown of the service closes the table as it does a delay queue. The table is then empty for good: an
//! insertion needs a looking timer, which the service refuses.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use super::handle::WallHandle;
use super::table::{Closure, Table, WallTime};
use crate::clock::{OnJump, Readings};
use crate::error::{ScheduleError, ScheduleErrorKind};
use crate::handle::TimerHandle;
use crate::shard::Shard;
use crate::sync::lock;
use crate::system::ClockWatch;
use crate::timer::{QueueRef, Timer, WeakTimer};

/// What the clones, the handles and the futures of a wall timer share.
pub(super) struct Shared {
    pub(super) timer: WeakTimer,
    /// For its clocks, and for its reports of panics.
    pub(super) shard: Arc<Shard>,
    pub(super) state: Mutex<State>,
}

pub(super) struct State {
    pub(super) table: Table,
    /// The looking timer, while something is pending.
    look: Option<Arc<TimerHandle>>,
    watch: Option<ClockWatch>,
    pub(super) is_told: bool,
    pub(super) look_every: Duration,
}

impl Shared {
    pub(super) fn new(timer: &Timer) -> Arc<Self> {
        let shard = timer.0.shards[0].clone();
        let is_told = shard.ticks.manual.is_some() || cfg!(target_os = "linux");
        let look_every = Duration::from_secs(30);
        let state = State { table: Table::default(), look: None, watch: None, is_told, look_every };
        let shared = Arc::new(Self { timer: timer.downgrade(), shard, state: Mutex::new(state) });
        let weak = Arc::downgrade(&shared);
        timer.0.add_queue(weak.clone());
        shared.shard.ticks.manual.iter().for_each(|clock| clock.listen(weak.clone()));
        shared
    }

    /// Returns the service while it is open. Its drop may end it, so it must come after that of a lock.
    pub(super) fn open(&self) -> Option<Timer> {
        self.timer.upgrade().filter(|timer| !timer.is_shutdown())
    }

    /// Returns `None` once the service is shut down, also in the child of a fork, where a thread of the parent may have the
    /// lock for ever.
    pub(super) fn lock(&self) -> Option<MutexGuard<'_, State>> {
        drop(self.open()?);
        Some(lock(&self.state))
    }

    pub(super) fn schedule<F>(self: &Arc<Self>, at: WallTime, f: F) -> Result<WallHandle, ScheduleError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        let Some(timer) = self.open() else { return Err(ScheduleError::new(ScheduleErrorKind::Shutdown, f)) };
        let mut state = lock(&self.state);
        if let Err(kind) = self.start_looking(&timer, &mut state) {
            return Err(ScheduleError::new(kind, f));
        }
        let key = state.table.insert(at, Run::start::<F>, Box::new(f));
        drop(state);
        self.settle();
        Ok(WallHandle { shared: self.clone(), key })
    }

    /// Starts the looking timer and the watch, unless there are.
    fn start_looking(self: &Arc<Self>, timer: &Timer, state: &mut State) -> Result<(), ScheduleErrorKind> {
        if state.look.is_some() {
            return Ok(());
        }
        let shared = self.clone();
        let look = timer.schedule_with_delays(Duration::MAX, move || shared.look());
        state.look = Some(Arc::new(look.map_err(|refused| refused.kind())?));
        if self.shard.ticks.manual.is_none() {
            let shared = Arc::downgrade(self);
            let watch = ClockWatch::start(move || _ = shared.upgrade().map(|shared| shared.clock_has_jumped()));
            state.is_told = watch.is_ok();
            state.watch = watch.ok();
        }
        Ok(())
    }

    /// Sets the next look, after a change. Ends the looking timer and the watch once nothing is pending.
    pub(super) fn settle(&self) {
        while let Some(mut state) = self.lock() {
            let changes = state.table.changes;
            let is_idle = state.table.entries.is_empty();
            let (look, watch) =
                if is_idle { (state.look.take(), state.watch.take()) } else { (state.look.clone(), None) };
            let every = if state.is_told { Duration::MAX } else { state.look_every };
            let left = state.table.left(self.readings()).map_or(Duration::MAX, |left| left.min(every));
            // None: never.
            let next = self.shard.ticks.now().checked_add(left);
            drop((state, watch));
            let _ = look.map(|look| match next {
                _ if is_idle => look.cancel(),
                Some(next) => look.reset_at(next),
                None => look.reset(Duration::MAX),
            });
            if lock(&self.state).table.changes == changes {
                return;
            }
        }
    }

    /// Gives what is due to the service. Returns `None`, which ends the looking timer unless `settle` resets it.
    fn look(self: &Arc<Self>) -> Option<Duration> {
        let timer = self.open()?;
        let due = lock(&self.state).table.take_due(self.readings());
        for (key, start) in due {
            start(Run { shared: self.clone(), key }, &timer);
        }
        self.settle();
        None
    }

    pub(super) fn readings(&self) -> Readings {
        self.shard.ticks.read_jumping()
    }

    pub(super) fn drop_closure(&self, f: Closure) {
        self.shard.catch_panic(None, false, || drop(f));
    }
}

impl OnJump for Shared {
    fn clock_has_jumped(&self) {
        self.lock().into_iter().for_each(|mut state| state.table.changes += 1);
        self.settle();
    }
}

impl QueueRef for Weak<Shared> {
    fn exists(&self) -> bool {
        self.strong_count() > 0
    }

    fn begin_close(&self) {}

    fn close(&self) -> Option<Box<dyn FnOnce()>> {
        let shared = self.upgrade()?;
        let mut state = lock(&shared.state);
        let (closures, look, watch) = (state.table.take_all(), state.look.take(), state.watch.take());
        drop(state);
        drop((look, watch));
        Some(Box::new(move || closures.for_each(|f| shared.drop_closure(f))))
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("pending", &self.lock().map_or(0, |state| state.table.entries.len())).finish()
    }
}

/// Gives a run to the service.
pub(super) type Start = fn(Run, &Timer);

/// One run of a closure, which its timer owns. Dropped without it, as a custom executor may do, it drops the closure.
pub(super) struct Run {
    shared: Arc<Shared>,
    key: u64,
}

impl Run {
    /// Schedules the run of a closure of type `F`.
    #[expect(clippy::extra_unused_type_parameters, reason = "the name of the timer's closure contains that of `F`")]
    pub(super) fn start<F>(self, timer: &Timer) {
        let shared = self.shared.clone();
        if let Err(refused) = timer.schedule(Duration::ZERO, move || self.run()) {
            shared.shard.catch_panic(None, false, refused.into_inner());
        }
    }

    fn run(self) {
        let now = self.shared.readings();
        let claimed = self.shared.lock().and_then(|mut state| state.table.claim(self.key, now));
        claimed.into_iter().for_each(|f| f());
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let unrun = self.shared.lock().and_then(|mut state| state.table.remove_given(self.key));
        unrun.into_iter().for_each(|f| self.shared.drop_closure(f));
        self.shared.settle();
    }
}
