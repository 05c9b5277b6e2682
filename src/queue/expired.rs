//! A value that is due.

use std::time::Instant;

/// A value that came out of a [`DelayQueue`](crate::DelayQueue).
///
/// ```
/// # use corewheel::{DelayQueue, Expired, ManualClock, Timer};
/// # use std::time::Duration;
/// # let clock = ManualClock::new();
/// # let timer = Timer::builder().clock(clock.clone()).build()?;
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
    /// The deadline that the value was given last, not rounded to a tick. If calls that reset the value compete, or one
    /// is in progress when it comes out, this may be the tick at which it became due.
    pub deadline: Instant,
    /// The value.
    pub value: T,
}
