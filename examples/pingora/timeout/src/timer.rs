//! Timers that are registered one by one.

use std::time::Duration;

use corewheel::Sleep;

use crate::sleep_for;

/// A timer to wait for. Dropping it cancels the timer.
pub struct TimerStub(Sleep);

impl TimerStub {
    /// Waits until the timer has expired.
    pub async fn poll(self) {
        self.0.await;
    }
}

/// Registers timers. All managers share one timer.
#[derive(Default)]
pub struct TimerManager(());

impl TimerManager {
    /// Returns a manager.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a timer that expires after `duration`, counted from this call.
    pub fn register_timer(&self, duration: Duration) -> TimerStub {
        TimerStub(sleep_for(duration))
    }

    /// Does nothing; see [`fast_timeout::pause_for_fork`](crate::fast_timeout::pause_for_fork).
    pub fn pause_for_fork(&self) {}

    /// Does nothing; see [`fast_timeout::pause_for_fork`](crate::fast_timeout::pause_for_fork).
    pub fn unpause(&self) {}
}
