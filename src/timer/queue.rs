//! Joins a delay queue to a timer.

use super::Timer;
use crate::queue::DelayQueue;

impl<T: Send + 'static> DelayQueue<T> {
    /// Creates an empty queue, whose values the drivers of `timer` make due.
    ///
    /// The queue does not keep the timer alive: the drop of the last [`Timer`] clone is a shutdown, after which the
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
        Self::open(service.home(), &service.queues, || service.is_closed())
    }
}
