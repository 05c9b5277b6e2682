//! The queue as its users see it, the keys of its values, and what its clones share.
//!
//! A queue has the shards of its timer, not the timer: the shards' memory stays, but their threads end with the last
//! clone of the `Timer`.

use std::fmt;
use std::mem;
use std::panic::RefUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_utils::atomic::AtomicCell;

use super::hand_over::{Expiry, HandOver};
use super::line::{Consumer, Item, TaskOrThread};
use crate::clock::{Deadline, Requested, Ticks, UNKNOWN_NANOS};
use crate::engine::entry::Callback;
use crate::error::{ScheduleError, ScheduleErrorKind};
use crate::handle::TimerHandle;
use crate::shard::budget::Waited;
use crate::shard::{NewTimer, Shard};
use crate::timer::{QueueRef, Timer};

/// A queue whose values come out when they are due.
///
/// Any number of producers [`push`](Self::push) values, each with a delay. Any number of consumers take what is due:
///
/// | a consumer that                    | calls                                                                |
/// |------------------------------------|----------------------------------------------------------------------|
/// | does not wait                      | [`try_pop`](Self::try_pop)                                           |
/// | blocks its thread                  | [`pop`](Self::pop), [`pop_timeout`](Self::pop_timeout)               |
/// | is a task                          | [`poll_pop`](Self::poll_pop), or with `futures-core` the `Stream`    |
///
/// Clones share one queue. `push` returns a [`DelayKey`], which removes or resets its value.
///
/// ```
/// use corewheel::{DelayQueue, Timer};
/// use std::time::Duration;
///
/// let timer = Timer::new()?;
/// let queue = DelayQueue::new(&timer);
/// queue.push(Duration::from_millis(20), "second")?;
/// queue.push(Duration::from_millis(5), "first")?;
/// let never = queue.push(Duration::from_secs(3600), "never")?;
///
/// assert_eq!(queue.pop().map(|due| due.value), Some("first"));
/// assert_eq!(queue.pop().map(|due| due.value), Some("second"));
/// assert_eq!(never.remove(), Some("never"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Promises
///
/// - **Once.** Each value comes out once: popped by one consumer, removed by its key, or dropped with the last clone of
///   the queue. The thread that drops the last clone drops the values that are left.
/// - **Never early.** No value is due before its deadline by [`Timer::now`](crate::Timer::now).
/// - **In order.** Values of one shard come out in the order of their ticks, if they were pushed before the first of
///   them was due. A thread pushes to one shard.
/// - **One wake-up a value.** Of many consumers that wait, one is woken for each value that becomes due, in the order
///   in which they began to wait. A woken consumer that gives up or is dropped passes its wake-up on.
/// - **No work of others.** `push`, [`remove`](DelayKey::remove) and [`reset`](DelayKey::reset) wait for no consumer that
///   waits, and for no driver at work. `push` and `remove` take a lock of the queue, `reset` takes none. A driver hands
///   over its own values, and does nothing for the callers of a queue. No lock is held while foreign code runs.
///
/// Values that are due do not pass through the executor: the driver of their shard hands them over.
///
/// # Counts and limits
///
/// Until it is due, a value counts as a one-shot timer does, in [`Timer::len`](crate::Timer::len), in
/// [`Stats`](crate::Stats) and against [`max_pending`](crate::Builder::max_pending). When it becomes due it counts as
/// `fired` and `completed`, and its lateness is recorded. A value that is removed or dropped before counts as
/// `cancelled`, one that is left by a shutdown as `unfired`. No setting limits how many values are due and not yet
/// popped.
///
/// # Memory
///
/// A value takes some 180 bytes beside its own. These are the 64 of its timer, a place in the queue's list, and an
/// allocation with the value, the handle and the deadline of its timer. What is removed or popped leaves nothing behind in
/// the queue, and the list shrinks with its length. The timer's part goes [back to the system](crate::Timer#promises)
/// after a burst. Whether the allocations do is up to the program's allocator: of 10^6 values, glibc's kept 125 MiB, which
/// `malloc_trim` gives back.
///
/// Threads that do nothing but push to and remove from one queue share its lock. Several queues share such a load.
///
/// # The end
///
/// [`close`](Self::close) ends the queue once all values have come out; [`drain`](Self::drain) takes them before. A
/// queue keeps the memory of its timer's shards, but not the timer. After a shutdown, `push` is refused. Consumers
/// receive what was due, and then `None`. What is not due stays in the queue: its key [removes](DelayKey::remove) it,
/// and the drop of the queue drops it. None of it is in [`Unfired`](crate::Unfired).
pub struct DelayQueue<T: Send + 'static> {
    shared: Arc<Shared<T>>,
    /// This clone, as a consumer that is polled.
    consumer: Consumer,
    /// Whether the consumer has been pending since it last received a value.
    waited: AtomicCell<Waited>,
}

impl<T: Send + 'static> DelayQueue<T> {
    /// Creates an empty queue, whose values the drivers of `timer` make due.
    ///
    /// The queue does not keep the service alive: the drop of the last [`Timer`] clone is a shutdown, after which the
    /// queue accepts no value. Takes a lock of the service, in amortised constant time.
    ///
    /// ```
    /// use corewheel::{DelayQueue, Timer};
    ///
    /// let timer = Timer::new()?;
    /// let queue: DelayQueue<String> = DelayQueue::new(&timer);
    /// assert!(queue.is_empty());
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn new(timer: &Timer) -> Self {
        let service = &timer.0;
        let shard = service.shards[0].clone();
        let values = Arc::new(HandOver::new(move |act, waker| shard.catch_panic(None, false, || act(waker))));
        service.add_queue(Arc::downgrade(&values));
        let (service, shards) = (service.id, service.shards[..].into());
        Self::of(Arc::new(Shared { values, service, shards, next: AtomicUsize::new(0) }))
    }

    fn of(shared: Arc<Shared<T>>) -> Self {
        Self { shared, consumer: Consumer::default(), waited: AtomicCell::new(Waited::No) }
    }

    /// Adds a value that is due after `delay`.
    ///
    /// A value with a zero delay is due as soon as the driver has seen it: no tick is waited for. A delay too long to
    /// represent means never. Dropping the key leaves the value in the queue.
    ///
    /// Takes the lock of the queue's list for some memory accesses, in amortised constant time. Allocates; where the
    /// allocator has no memory, the process ends.
    ///
    /// # Errors
    ///
    /// [`Shutdown`] after a shutdown of the service or a [`close`](Self::close), [`Full`] at
    /// [`max_pending`](crate::Builder::max_pending), and [`OutOfMemory`] if the system has no memory for the value's timer.
    /// The error returns the value.
    ///
    /// [`Full`]: crate::ScheduleErrorKind::Full
    /// [`OutOfMemory`]: crate::ScheduleErrorKind::OutOfMemory
    /// [`Shutdown`]: crate::ScheduleErrorKind::Shutdown
    ///
    /// ```
    /// use corewheel::{DelayQueue, Timer};
    /// use std::time::Duration;
    /// let timer = Timer::new()?;
    /// let queue = DelayQueue::new(&timer);
    /// let key = queue.push(Duration::from_secs(5), "job 1")?;
    /// assert_eq!(queue.len(), 1);
    /// # drop(key);
    /// timer.shutdown();
    /// let refused = queue.push(Duration::from_secs(5), "job 2").unwrap_err();
    /// assert_eq!(refused.into_inner(), "job 2");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn push(&self, delay: Duration, value: T) -> Result<DelayKey<T>, ScheduleError<T>> {
        self.shared.push(self.shared.ticks().after(delay), value)
    }

    /// Adds a value that is due at `deadline`. One in the past is due at once. Otherwise as [`push`](Self::push).
    ///
    /// # Errors
    ///
    /// As [`push`](Self::push).
    ///
    /// ```
    /// use corewheel::{DelayQueue, Timer};
    /// let timer = Timer::new()?;
    /// let queue = DelayQueue::new(&timer);
    /// queue.push_at(timer.now(), 7)?;
    /// assert_eq!(queue.pop().map(|due| due.value), Some(7));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn push_at(&self, deadline: Instant, value: T) -> Result<DelayKey<T>, ScheduleError<T>> {
        self.shared.push(self.shared.ticks().at(deadline), value)
    }

    /// Returns the first value that is due, or `None` if none is. Does not wait for one.
    ///
    /// A value is due once the driver of its shard has seen that its deadline has come. That is soon after the
    /// deadline; [`Stats::lateness`](crate::Stats::lateness) tells how soon. Takes the consumers' lock, in
    /// logarithmic time in the number of values that are due.
    ///
    /// ```
    /// use corewheel::{DelayQueue, ManualClock, Timer};
    /// use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let queue = DelayQueue::new(&timer);
    /// queue.push(Duration::from_secs(60), "a minute")?;
    /// assert!(queue.try_pop().is_none());
    /// clock.advance(Duration::from_secs(60)); // returns when the value is due
    /// assert_eq!(queue.try_pop().map(|due| due.value), Some("a minute"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_pop(&self) -> Option<Expired<T>> {
        if let Poll::Ready(popped) = self.shared.poll(&Consumer::default(), None) { popped } else { None }
    }

    /// Returns the first value that is due, and blocks the thread until one is. Returns `None` once nothing more can come:
    /// the timer has been shut down and nothing that was due is left, or the queue is closed and empty.
    ///
    /// Any number of threads may wait, also on one clone. Inside a callback this blocks a worker of the executor, as
    /// any blocking call does. On a driver thread, which is where [`Executor::Inline`](crate::Executor::Inline) runs
    /// callbacks and where wakers run, it blocks the shard: a value of that shard never becomes due. In [virtual
    /// time](crate::ManualClock) it waits until another thread advances the clock. Inside a callback of that clock no
    /// thread can, so only a value that is due by now ends the wait.
    ///
    /// ```
    /// use corewheel::{DelayQueue, Timer};
    /// use std::{thread, time::Duration};
    ///
    /// let timer = Timer::new()?;
    /// let queue = DelayQueue::new(&timer);
    /// let consumer = queue.clone();
    /// let worker = thread::spawn(move || {
    ///     let mut jobs = 0;
    ///     while let Some(_job) = consumer.pop() {
    ///         jobs += 1;
    ///     }
    ///     jobs
    /// });
    /// for job in 0..3 {
    ///     queue.push(Duration::from_millis(2), job)?;
    /// }
    /// while !queue.is_empty() {
    ///     thread::sleep(Duration::from_millis(1));
    /// }
    /// timer.shutdown();
    /// assert_eq!(worker.join().unwrap(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pop(&self) -> Option<Expired<T>> {
        self.pop_until(None)
    }

    /// As [`pop`](Self::pop), but returns `None` also if this call has received no value within `limit`.
    ///
    /// The limit is real time, also in virtual time. One too long to represent means no limit.
    ///
    /// ```
    /// use corewheel::{DelayQueue, Timer};
    /// use std::time::Duration;
    /// let timer = Timer::new()?;
    /// let queue = DelayQueue::new(&timer);
    /// queue.push(Duration::from_secs(3600), "much later")?;
    /// assert!(queue.pop_timeout(Duration::from_millis(5)).is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pop_timeout(&self, limit: Duration) -> Option<Expired<T>> {
        self.pop_until(Instant::now().checked_add(limit))
    }

    /// Polls for the first value that is due. `Ready(None)` once nothing more can come, as for [`pop`](Self::pop).
    ///
    /// If it is pending, the waker is called when a value is due for this consumer. Each clone that is polled is a
    /// consumer of its own, and calls the waker of its last poll: give each task a clone. The drop of a clone that was
    /// woken passes the wake-up on. A clone that is kept and not polled again does not; then the value waits for the
    /// next consumer that looks, or that another value wakes.
    ///
    /// No loop keeps its executor from other tasks: after 128 or more polls on a thread that were ready without waiting, one
    /// wakes its task and is pending once, as for [`Sleep`](crate::Sleep#loops).
    ///
    /// Takes the consumers' lock, in logarithmic time in the number of consumers that wait and of values that are due.
    ///
    /// ```
    /// use corewheel::{DelayQueue, Timer};
    /// use std::{future, time::Duration};
    ///
    /// let timer = Timer::new()?;
    /// let queue = DelayQueue::new(&timer);
    /// queue.push(Duration::from_millis(5), "due")?;
    /// # futures::executor::block_on(async {
    /// let due = future::poll_fn(|cx| queue.poll_pop(cx)).await;
    /// assert_eq!(due.map(|due| due.value), Some("due"));
    /// # });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn poll_pop(&self, cx: &mut Context<'_>) -> Poll<Option<Expired<T>>> {
        // A clone is polled by one task. Two that share it do no harm.
        let mut waited = self.waited.load();
        if !waited.poll() {
            self.waited.store(Waited::GaveWay);
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let polled = self.shared.poll(&self.consumer, Some(TaskOrThread::Task(cx.waker().clone())));
        match polled {
            Poll::Pending => waited = Waited::Yes,
            Poll::Ready(_) => waited.complete(),
        }
        self.waited.store(waited);
        polled
    }

    /// Returns the number of values in the queue, those that wait and those that are due. A value whose `push` has not
    /// returned may not be counted yet. Takes the lock of the queue's list for some memory accesses.
    ///
    /// ```
    /// use corewheel::{DelayQueue, ManualClock, Timer};
    /// use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let queue = DelayQueue::new(&timer);
    /// queue.push(Duration::from_secs(1), 'a')?;
    /// queue.push(Duration::from_secs(2), 'b')?;
    /// clock.advance(Duration::from_secs(1));
    /// assert_eq!((queue.len(), timer.len()), (2, 1)); // the timer counts what is not due
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn len(&self) -> usize {
        self.shared.live().map_or(0, |values| values.len())
    }

    /// Returns whether the queue has no values, as [`len`](Self::len) counts.
    ///
    /// ```
    /// use corewheel::{DelayQueue, Timer};
    /// use std::time::Duration;
    /// let timer = Timer::new()?;
    /// let queue = DelayQueue::new(&timer);
    /// queue.push(Duration::from_secs(1), ())?.remove();
    /// assert!(queue.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the present of the queue's timer, as [`Timer::now`](crate::Timer::now) does: in [virtual
    /// time](crate::ManualClock), where the clock stands. A deadline for [`push_at`](Self::push_at) counts from it. Wait-free
    /// in real time.
    ///
    /// ```
    /// use corewheel::{DelayQueue, Timer};
    /// use std::time::Duration;
    /// fn retry(queue: &DelayQueue<&'static str>) -> Result<(), Box<dyn std::error::Error>> {
    ///     queue.push_at(queue.now() + Duration::from_secs(5), "a job")?;
    ///     Ok(())
    /// }
    /// retry(&DelayQueue::new(&Timer::new()?))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn now(&self) -> Instant {
        self.shared.ticks().now()
    }

    /// Returns the earliest [deadline](Expired::deadline) of a value in the queue, whether that is due or not. Returns `None`
    /// if the queue is empty.
    ///
    /// A value whose `push` has not returned may not be seen yet. A value that never becomes due counts with an instant a
    /// hundred years ahead.
    ///
    /// For diagnosis and tests: looks at each value, in linear time, under the lock of the queue's list. So `push`, `remove`
    /// and consumers may wait for some 10 ms while a million values are in. A driver does not wait.
    ///
    /// ```
    /// use corewheel::{DelayQueue, ManualClock, Timer};
    /// use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let queue = DelayQueue::new(&timer);
    /// assert_eq!(queue.next_deadline(), None);
    /// queue.push(Duration::from_secs(60), "later")?;
    /// let first = queue.push(Duration::from_secs(5), "soon")?;
    /// assert_eq!(queue.next_deadline(), Some(queue.now() + Duration::from_secs(5)));
    /// first.remove();
    /// assert_eq!(queue.next_deadline(), Some(queue.now() + Duration::from_secs(60)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn next_deadline(&self) -> Option<Instant> {
        self.shared.live()?.min(|item| self.shared.deadline_of(item))
    }

    /// Closes the queue: each later [`push`](Self::push) is refused with [`Shutdown`](crate::ScheduleErrorKind::Shutdown).
    ///
    /// What is in the queue comes out as before, when it is due. Then [`pop`](Self::pop) returns `None`, and consumers
    /// that wait are woken. [`drain`](Self::drain) after the close ends the queue at once. A push that is in progress
    /// comes before the close or is refused. Another close has no effect.
    ///
    /// Takes the consumers' lock, in constant time, except for the consumers that it wakes.
    ///
    /// ```
    /// use corewheel::{DelayQueue, Timer};
    /// use std::time::Duration;
    /// let timer = Timer::new()?;
    /// let queue = DelayQueue::new(&timer);
    /// queue.push(Duration::from_millis(5), "last")?;
    /// queue.close();
    /// assert!(queue.push(Duration::ZERO, "late").is_err_and(|refused| refused.is_shutdown()));
    /// assert_eq!(queue.pop().map(|due| due.value), Some("last"));
    /// assert_eq!(queue.pop(), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn close(&self) {
        if let Some(values) = self.shared.live() {
            values.wake(values.close());
        }
    }

    /// Takes all values out of the queue, due or not, each with its [deadline](Expired::deadline), in no particular order.
    ///
    /// A value whose push has not returned stays. The timers of the values count as cancelled, unless they were due.
    /// The values that the iterator has not returned are dropped with it.
    ///
    /// In linear time in the number of values. Takes the locks of the queue for one value at a time.
    ///
    /// ```
    /// use corewheel::{DelayQueue, Timer};
    /// use std::time::Duration;
    /// let timer = Timer::new()?;
    /// let queue = DelayQueue::new(&timer);
    /// queue.push(Duration::from_secs(60), "a session")?;
    /// queue.close();
    /// for (deadline, session) in queue.drain() {
    ///     println!("{session} had {:?} left", deadline - timer.now());
    /// }
    /// assert_eq!(queue.pop(), None); // at once: the queue is closed and empty
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn drain(&self) -> impl Iterator<Item = (Instant, T)> + use<T> {
        self.shared.drain().collect::<Vec<_>>().into_iter()
    }

    /// Returns whether the queue accepts no more values: it was [closed](Self::close), or its service was shut down. This
    /// tells the end from a limit after [`pop_timeout`](Self::pop_timeout) has returned `None`. Wait-free.
    ///
    /// ```
    /// use corewheel::{DelayQueue, Timer};
    /// let timer = Timer::new()?;
    /// let queue = DelayQueue::<()>::new(&timer);
    /// assert!(!queue.is_closed());
    /// timer.shutdown();
    /// assert!(queue.is_closed());
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn is_closed(&self) -> bool {
        self.shared.live().is_none_or(|values| values.is_closed())
    }

    /// Takes the first value that is due. Waits for one until the queue is over, or until `limit`.
    fn pop_until(&self, limit: Option<Instant>) -> Option<Expired<T>> {
        if let Poll::Ready(popped) = self.shared.poll(&Consumer::default(), None) {
            return popped;
        }
        let consumer = Consumer::default();
        loop {
            if let Poll::Ready(popped) = self.shared.poll(&consumer, Some(TaskOrThread::Thread(thread::current()))) {
                return popped;
            }
            let left = limit.map(|limit| limit.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                // A wake-up that came too late goes to another consumer. The look comes after it, because it may call
                // wakers. Another consumer may have been woken for a value, and not have taken it.
                self.withdraw(&consumer);
                return self.try_pop();
            }
            left.map_or_else(thread::park, thread::park_timeout);
        }
    }

    fn withdraw(&self, consumer: &Consumer) {
        if let Some(values) = self.shared.live() {
            values.withdraw(consumer);
        }
    }
}

impl<T: Send + 'static> Clone for DelayQueue<T> {
    /// Returns another handle to the same queue, which is a consumer of its own.
    fn clone(&self) -> Self {
        Self::of(self.shared.clone())
    }
}

impl<T: Send + 'static> Drop for DelayQueue<T> {
    fn drop(&mut self) {
        self.waited.load().forget();
        self.withdraw(&self.consumer);
    }
}

impl<T: Send + 'static> fmt::Debug for DelayQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelayQueue").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// A stream of the values that are due, for one consumer. It ends once the timer has been shut down and nothing that
/// was due is left.
#[cfg(feature = "futures-core")]
impl<T: Send + 'static> futures_core::Stream for DelayQueue<T> {
    type Item = Expired<T>;

    fn poll_next(self: std::pin::Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Expired<T>>> {
        self.poll_pop(cx)
    }
}

/// A value that came out of a [`DelayQueue`].
///
/// ```
/// use corewheel::{DelayQueue, Expired, ManualClock, Timer};
/// use std::time::Duration;
/// let clock = ManualClock::new();
/// let timer = Timer::builder().clock(clock.clone()).build()?;
/// let queue = DelayQueue::new(&timer);
/// let deadline = timer.now() + Duration::from_secs(1);
/// queue.push_at(deadline, "retry")?;
/// clock.advance(Duration::from_secs(1));
/// let Expired { deadline: due, value, .. } = queue.try_pop().expect("it is due");
/// assert_eq!((due, value), (deadline, "retry"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Expired<T> {
    /// The deadline that the value was given last, not rounded to a tick. After a reset without a delay, or while calls
    /// that reset the value compete or are in progress, this may be the tick at which it became due.
    pub deadline: Instant,
    /// The value.
    pub value: T,
}

/// Removes or resets one value of a [`DelayQueue`], from any thread.
///
/// [`DelayQueue::push`] returns it. Dropping it leaves the value in the queue. A key keeps
/// neither the timer nor the queue, but their memory: when the last clone of the queue is dropped, so is the value.
///
/// ```
/// use corewheel::{DelayQueue, Timer};
/// use std::time::Duration;
///
/// let timer = Timer::new()?;
/// let queue = DelayQueue::new(&timer);
/// let session = queue.push(Duration::from_secs(60), "alice")?;
/// session.reset(Duration::from_secs(60)); // a request: a minute from now
/// assert_eq!(session.remove(), Some("alice")); // logged out
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct DelayKey<T> {
    item: Arc<Value<T>>,
    values: Arc<Values<T>>,
}

impl<T> DelayKey<T> {
    fn handle(&self) -> &TimerHandle {
        self.item.beside.handle.get().expect("the push has returned this key")
    }

    /// Takes the value out of the queue, whether it is due or not. Returns `None` if it was popped, or was dropped with
    /// the queue.
    ///
    /// After a shutdown of the service, it returns a value that was not due, too. Of any number of consumers and this
    /// call, one receives the value.
    ///
    /// Takes the lock of the queue's list for some memory accesses, in amortised constant time. If the value is due,
    /// also the consumers' lock, in logarithmic time in the number of values that are due.
    ///
    /// ```
    /// use corewheel::{DelayQueue, ManualClock, Timer};
    /// use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let queue = DelayQueue::new(&timer);
    /// let (waits, due) = (queue.push(Duration::from_secs(9), 1)?, queue.push(Duration::from_secs(1), 2)?);
    /// clock.advance(Duration::from_secs(1));
    /// assert_eq!((waits.remove(), due.remove(), queue.try_pop()), (Some(1), Some(2), None));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn remove(self) -> Option<T> {
        let handle = self.handle();
        handle.live()?;
        // Before the value is taken: a shutdown that ends the timer before this has found the value in the queue.
        let was_waiting = handle.cancel();
        self.values.remove(&self.item, !was_waiting)
    }

    /// Gives the value a new deadline, `delay` from now, earlier or later. Returns whether it was not due: true if it
    /// has the new deadline, false if it is due, has come out, or the service was shut down.
    ///
    /// Lock-free, in constant time: see [`TimerHandle::reset`].
    ///
    /// ```
    /// use corewheel::{DelayQueue, ManualClock, Timer};
    /// use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let queue = DelayQueue::new(&timer);
    /// let key = queue.push(Duration::from_secs(1), "later")?;
    /// assert!(key.reset(Duration::from_secs(5)));
    /// clock.advance(Duration::from_secs(4));
    /// assert!(queue.try_pop().is_none());
    /// clock.advance(Duration::from_secs(1));
    /// assert!(!key.reset(Duration::from_secs(5))); // it is due
    /// assert_eq!(queue.try_pop().map(|due| due.value), Some("later"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reset(&self, delay: Duration) -> bool {
        self.handle().reset(delay)
    }

    /// Gives the value a new deadline. A deadline that has passed means now. Otherwise as [`reset`](Self::reset).
    ///
    /// ```
    /// use corewheel::{DelayQueue, ManualClock, Timer};
    /// use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let queue = DelayQueue::new(&timer);
    /// let key = queue.push(Duration::from_secs(60), "a lease")?;
    /// let earlier = timer.now() + Duration::from_secs(5);
    /// assert!(key.reset_at(earlier));
    /// clock.advance(Duration::from_secs(5));
    /// assert_eq!(queue.try_pop().map(|due| due.deadline), Some(earlier));
    /// assert!(!key.reset_at(earlier)); // it has come out
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reset_at(&self, deadline: Instant) -> bool {
        self.handle().reset_at(deadline)
    }

    /// Returns the deadline of the value, or `None` if it is due, has come out, or the service was shut down. A value
    /// that never becomes due reports an instant a hundred years ahead. Wait-free in real time.
    ///
    /// ```
    /// use corewheel::{DelayQueue, ManualClock, Timer};
    /// use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let queue = DelayQueue::new(&timer);
    /// let key = queue.push(Duration::from_secs(1), ())?;
    /// assert_eq!(key.deadline(), Some(timer.now() + Duration::from_secs(1)));
    /// clock.advance(Duration::from_secs(1));
    /// assert_eq!(key.deadline(), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn deadline(&self) -> Option<Instant> {
        self.handle().deadline()
    }
}

impl<T> fmt::Debug for DelayKey<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelayKey").field("deadline", &self.deadline()).finish_non_exhaustive()
    }
}

/// What the clones share. Its drop is the drop of the last clone.
struct Shared<T: Send + 'static> {
    values: Arc<Values<T>>,
    /// The id of the timer's service.
    service: u64,
    shards: Box<[Arc<Shard>]>,
    /// Spreads threads over the shards.
    next: AtomicUsize,
}

type Values<T> = HandOver<T, Scheduled>;
type Value<T> = Item<T, Scheduled>;

/// What the queue keeps beside a value.
struct Scheduled {
    /// The deadline that the push gave.
    requested: Requested,
    /// The same as a tick.
    tick: u64,
    /// The handle of the timer. The push sets it after the timer was accepted, and maybe after the item became due, but
    /// before it lists the item.
    handle: OnceLock<TimerHandle>,
}

impl<T: Send + 'static> Shared<T> {
    /// Returns the values. `None` in the child of a fork: they are the parent's, and a thread of it may have a lock of
    /// theirs for ever.
    fn live(&self) -> Option<&Arc<Values<T>>> {
        Some(&self.values).filter(|_| !self.shards[0].is_inherited())
    }

    fn ticks(&self) -> &Ticks {
        &self.shards[0].ticks
    }

    /// Adds a value, and schedules its timer, whose callback the driver runs.
    fn push(&self, deadline: Deadline, value: T) -> Result<DelayKey<T>, ScheduleError<T>> {
        // Relaxed: only spreads the threads, and guards nothing.
        let choose = || Shard::choose_home(&self.shards, self.next.fetch_add(1, Ordering::Relaxed));
        let beside = Scheduled { requested: deadline.requested, tick: deadline.tick, handle: OnceLock::new() };
        let entered = if self.live().is_some() { Expiry::enter(&self.values, value, beside) } else { Err(value) };
        let (item, expiry) = entered.map_err(|value| {
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
                item.beside.handle.get_or_init(|| unsafe { TimerHandle::new(raw, deadline) });
                self.values.list(item.clone());
                Ok(DelayKey { item, values: self.values.clone() })
            }
            Err((kind, callback)) => {
                drop(callback);
                let value = item.claim().expect("without a timer, no other thread has the item");
                Err(ScheduleError::new(kind, value))
            }
        }
    }

    /// Takes all values, except those whose push has not returned.
    fn drain(&self) -> impl Iterator<Item = (Instant, T)> {
        let drained = self.live().map(|values| values.drain());
        drained.into_iter().flatten().map(|(value, item)| {
            item.beside.handle.get().map(TimerHandle::cancel);
            (self.deadline_of(&item), value)
        })
    }

    /// Returns the last deadline of a listed item.
    fn deadline_of(&self, item: &Value<T>) -> Instant {
        self.deadline(item, item.beside.handle.get().expect("set before the item is listed").last_tick())
    }

    /// Takes the first value that is due, with its deadline, as [`HandOver::poll`] does. In the child of a fork, the queue
    /// is over.
    fn poll(&self, consumer: &Consumer, wake: Option<TaskOrThread>) -> Poll<Option<Expired<T>>> {
        let Some(values) = self.live() else { return Poll::Ready(None) };
        values
            .poll(consumer, wake)
            .map(|popped| popped.map(|(value, (item, tick))| Expired { deadline: self.deadline(&item, tick), value }))
    }

    /// Returns the last deadline of an item, whose tick is `tick`.
    fn deadline(&self, item: &Value<T>, tick: u64) -> Instant {
        // A push or a reset that has not returned may not have noted its deadline yet. So what is noted is shown only if
        // it agrees with the tick.
        let pushed = &item.beside;
        match pushed.handle.get().map_or(UNKNOWN_NANOS, TimerHandle::exact) {
            UNKNOWN_NANOS if pushed.tick == tick => self.ticks().display_requested(pushed.requested),
            exact => self.ticks().display_deadline(tick, exact),
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
