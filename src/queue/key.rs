//! The key of one value.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::shared::{Value, Values};
use crate::handle::TimerHandle;

/// Removes or resets one value of a [`DelayQueue`](crate::DelayQueue), from any thread.
///
/// [`DelayQueue::push`](crate::DelayQueue::push) returns it. Dropping it leaves the value in the queue. A key keeps
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
    pub(super) item: Arc<Value<T>>,
    pub(super) values: Arc<Values<T>>,
}

impl<T> DelayKey<T> {
    fn handle(&self) -> &TimerHandle {
        self.item.handle.get().expect("the push has returned this key")
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
        Some(self.values.remove(&self.item, !was_waiting)?.0)
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
