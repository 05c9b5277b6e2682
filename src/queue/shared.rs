//! What the clones of a queue share: its values, and the shards that keep their timers.
//!
//! A queue has the shards of its timer, not the timer: the shards' memory stays, but their threads end with the last
//! clone of the `Timer`.

use std::mem;
use std::panic::RefUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Instant;

use super::delay_queue::Expired;
use super::expiry::Expiry;
use super::hand_over::HandOver;
use super::item::Item;
use super::key::DelayKey;
use super::line::{Consumer, TaskOrThread};
use crate::clock::{Deadline, Requested, Ticks, UNKNOWN_NANOS};
use crate::engine::entry::Callback;
use crate::error::{ScheduleError, ScheduleErrorKind};
use crate::handle::TimerHandle;
use crate::shard::{NewTimer, Shard};
use crate::timer::{QueueRef, Timer};

/// What the clones share. Its drop is the drop of the last clone.
pub(super) struct Shared<T: Send + 'static> {
    values: Arc<Values<T>>,
    /// The id of the timer's service.
    service: u64,
    shards: Box<[Arc<Shard>]>,
    /// Spreads threads over the shards.
    next: AtomicUsize,
}

/// Each value has the deadline that its push gave, as requested and as a tick.
pub(super) type Values<T> = HandOver<(T, (Requested, u64)), TimerHandle>;
pub(super) type Value<T> = Item<(T, (Requested, u64)), TimerHandle>;

impl<T: Send + 'static> Shared<T> {
    pub(super) fn new(timer: &Timer) -> Self {
        let (service, shards) = timer.shards();
        let shard = shards[0].clone();
        let values = Arc::new(HandOver::new(move |act, waker| shard.catch_panic(None, false, || act(waker))));
        timer.add_queue(Arc::downgrade(&values));
        Self { values, service, shards: shards.into(), next: AtomicUsize::new(0) }
    }

    /// Returns the values. `None` in the child of a fork: they are the parent's, and a thread of it may have a lock of
    /// theirs for ever.
    pub(super) fn live(&self) -> Option<&Arc<Values<T>>> {
        Some(&self.values).filter(|_| !self.shards[0].is_inherited())
    }

    pub(super) fn ticks(&self) -> &Ticks {
        &self.shards[0].ticks
    }

    /// Adds a value, and schedules its timer, whose callback the driver runs.
    pub(super) fn push(&self, deadline: Deadline, value: T) -> Result<DelayKey<T>, ScheduleError<T>> {
        // Relaxed: only spreads the threads, and guards nothing.
        let choose = || Shard::choose_home(&self.shards, self.next.fetch_add(1, Ordering::Relaxed));
        let value = (value, (deadline.requested, deadline.tick));
        let entered = if self.live().is_some() { Expiry::enter(&self.values, value) } else { Err(value) };
        let (item, expiry) = entered.map_err(|(value, _)| {
            Shard::reject(self.service, choose);
            ScheduleError::new(ScheduleErrorKind::Shutdown, value)
        })?;
        let callback = Callback::value::<_, T>(move |tick, deliveries| expiry.deliver(tick, deliveries));
        let armed = match NewTimer::new(self.service, choose) {
            Ok(timer) => timer.arm_with(callback, deadline),
            Err(kind) => Err((kind, callback)),
        };
        match armed {
            Ok(raw) => {
                // SAFETY: only this handle receives it.
                item.handle.get_or_init(|| unsafe { TimerHandle::new(raw, deadline) });
                self.values.list(item.clone());
                Ok(DelayKey { item, values: self.values.clone() })
            }
            Err((kind, callback)) => {
                drop(callback);
                let (value, _) = item.claim().expect("without a timer, no other thread has the item");
                Err(ScheduleError::new(kind, value))
            }
        }
    }

    /// Takes all values, except those whose push has not returned.
    pub(super) fn drain(&self) -> impl Iterator<Item = (Instant, T)> {
        let drained = self.live().map(|values| values.drain());
        drained.into_iter().flatten().map(|((value, _), item)| {
            item.handle.get().map(TimerHandle::cancel);
            (self.deadline_of(&item), value)
        })
    }

    /// Returns the last deadline of a listed item.
    pub(super) fn deadline_of(&self, item: &Value<T>) -> Instant {
        let handle = item.handle.get().expect("set before the item is listed");
        self.deadline(item.beside(), handle.exact(), handle.last_tick())
    }

    /// Takes the first value that is due, with its deadline, as [`HandOver::poll`] does. In the child of a fork, the queue
    /// is over.
    pub(super) fn poll(&self, consumer: &Consumer, wake: Option<TaskOrThread>) -> Poll<Option<Expired<T>>> {
        let Some(values) = self.live() else { return Poll::Ready(None) };
        let popped = values.poll(consumer, wake);
        popped.map(|popped| {
            popped.map(|((value, pushed), (item, tick))| {
                let exact = item.handle.get().map_or(UNKNOWN_NANOS, TimerHandle::exact);
                Expired { deadline: self.deadline(pushed, exact, tick), value }
            })
        })
    }

    /// Returns the last deadline of a value, whose tick is `tick`. Its push gave `requested`, with the tick `pushed`.
    fn deadline(&self, (requested, pushed): (Requested, u64), exact: u64, tick: u64) -> Instant {
        // A push or a reset that has not returned may not have noted its deadline yet. So what is noted is shown only if
        // it agrees with the tick.
        match exact {
            UNKNOWN_NANOS if pushed == tick => self.ticks().display_requested(requested),
            _ => self.ticks().display_deadline(tick, exact),
        }
    }
}

impl<T: Send + 'static> Drop for Shared<T> {
    fn drop(&mut self) {
        if self.live().is_none() {
            return mem::forget(self.values.clone());
        }
        self.drain().for_each(|(_, value)| self.shards[0].catch_panic(None, false, || drop(value)));
    }
}

impl<T: Send + 'static> QueueRef for Weak<Values<T>> {
    fn exists(&self) -> bool {
        self.strong_count() > 0
    }

    fn begin_close(&self) {
        if let Some(values) = self.upgrade() {
            values.begin_close();
        }
    }

    fn close(&self) -> Option<Box<dyn FnOnce()>> {
        let values = self.upgrade()?;
        let tasks = values.end_close();
        Some(Box::new(move || values.wake(tasks)))
    }
}

// A panic cannot leave a queue half changed: no foreign code runs under its lock, and a value is taken by one atomic
// step. `tests/unwind.rs` has the list of public types for which this makes it hold.
impl<T, H> RefUnwindSafe for HandOver<T, H> {}
impl<T, H> RefUnwindSafe for Item<T, H> {}
