//! The handle of a callback that is scheduled by a clock that jumps.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::looks::Shared;
use super::table::WallTime;
use crate::handle::{Cancel, CancelOnDrop};

/// The handle of a callback of a [`WallTimer`](super::WallTimer): cancels it, resets it, and tells whether it is pending.
///
/// Dropping the handle detaches the callback, which still runs; [`cancel_on_drop`](Self::cancel_on_drop) turns the handle
/// into a guard that cancels instead. A handle keeps neither the service nor its callback. Each method takes the lock of
/// the wall timer's table, in logarithmic time in the number of deadlines.
///
/// ```
/// use corewheel::{Timer, wall::WallTimer};
/// use std::time::{Duration, SystemTime};
/// let timer = Timer::new()?;
/// let tomorrow = SystemTime::now() + Duration::from_secs(86_400);
/// let job = WallTimer::new(&timer).schedule_at(tomorrow, || println!("a report"))?;
/// assert!(job.reset_at(tomorrow + Duration::from_secs(3600)));
/// assert!(job.cancel()); // this call ended it
/// assert!(!job.cancel()); // it had ended already
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct WallHandle {
    pub(super) shared: Arc<Shared>,
    pub(super) key: u64,
}

impl WallHandle {
    /// Cancels the callback: it will not run.
    ///
    /// Returns true if this call ended it; false if it has started, was cancelled or was dropped by a shutdown. Of several
    /// cancels and the run itself, exactly one ends it. The calling thread drops the closure. If that panics, the panic is
    /// caught, counted, and passed to [`on_panic`](crate::Builder::on_panic).
    ///
    /// ```
    /// use corewheel::{Timer, wall::WallTimer};
    /// use std::time::Duration;
    /// let timer = Timer::new()?;
    /// let wall = WallTimer::new(&timer);
    /// let lease = wall.schedule_after(Duration::from_secs(600), || println!("the lease has ended"))?;
    /// assert!(lease.cancel());
    /// assert!(wall.is_empty() && timer.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel(&self) -> bool {
        let Some(f) = self.shared.lock().and_then(|mut state| state.table.remove(self.key)) else { return false };
        self.shared.settle();
        self.shared.drop_closure(f);
        true
    }

    /// Sets a new time by the time of day, whatever the callback was scheduled by. One that has passed means now.
    ///
    /// Returns true if it was pending; it then runs at the new time and not at the old one. Returns false, and does nothing,
    /// if it has started or ended.
    ///
    /// ```
    /// use corewheel::{ManualClock, Timer, wall::WallTimer};
    /// use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let wall = WallTimer::new(&timer);
    /// let lease = wall.schedule_after(Duration::from_secs(600), || println!("the lease has ended"))?;
    /// assert!(lease.reset_at(wall.now() + Duration::from_secs(3600))); // until a time of day
    /// clock.advance(Duration::from_secs(600));
    /// assert!(lease.is_pending());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reset_at(&self, at: SystemTime) -> bool {
        self.reset(WallTime::at(at))
    }

    /// Sets a new time, `delay` from now, that counts the time in which the machine is suspended. Otherwise as
    /// [`reset_at`](Self::reset_at).
    ///
    /// ```
    /// use corewheel::{ManualClock, Timer, wall::WallTimer};
    /// use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let ten_minutes = Duration::from_secs(600);
    /// let lease = WallTimer::new(&timer).schedule_after(ten_minutes, || println!("the lease has ended"))?;
    /// clock.advance(ten_minutes / 2);
    /// assert!(lease.reset_after(ten_minutes)); // renewed
    /// clock.suspend(ten_minutes / 2);
    /// assert!(lease.is_pending());
    /// clock.suspend(ten_minutes / 2);
    /// assert!(!lease.reset_after(ten_minutes)); // too late
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reset_after(&self, delay: Duration) -> bool {
        self.reset(WallTime::after(&self.shared.shard.ticks, delay))
    }

    fn reset(&self, at: WallTime) -> bool {
        let reset = self.shared.lock().is_some_and(|mut state| state.table.reset(self.key, at));
        if reset {
            self.shared.settle();
        }
        reset
    }

    /// Returns whether the callback is pending: it has not started, was not cancelled, and the service runs.
    ///
    /// ```
    /// use corewheel::{ManualClock, Timer, wall::WallTimer};
    /// use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// let wall = WallTimer::new(&timer);
    /// let token = wall.schedule_at(wall.now() + Duration::from_secs(60), || println!("the token has expired"))?;
    /// assert!(token.is_pending());
    /// clock.set_time_of_day(wall.now() + Duration::from_secs(60));
    /// assert!(!token.is_pending());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_pending(&self) -> bool {
        self.shared.lock().is_some_and(|state| state.table.entries.contains_key(&self.key))
    }

    /// Turns the handle into a guard that cancels the callback when it is dropped.
    ///
    /// ```
    /// use corewheel::{Timer, wall::WallTimer};
    /// use std::time::Duration;
    /// let timer = Timer::new()?;
    /// let wall = WallTimer::new(&timer);
    /// fn hold_the_lease() {}
    /// {
    ///     let ended = || eprintln!("the lease has ended");
    ///     let _guard = wall.schedule_after(Duration::from_secs(600), ended)?.cancel_on_drop();
    ///     hold_the_lease();
    /// }
    /// assert!(wall.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel_on_drop(self) -> CancelOnDrop<Self> {
        CancelOnDrop(self)
    }
}

impl Cancel for WallHandle {
    fn cancel(&self) -> bool {
        self.cancel()
    }
}
