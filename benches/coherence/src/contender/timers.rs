//! The interface that workloads use.

use std::time::Duration;

/// A timer with callbacks that do nothing.
pub trait Timers: Send + Sync + 'static {
    type Handle: Send + 'static;

    fn schedule(&self, delay: Duration) -> Self::Handle;
    /// Cancels the timer and frees it. Returns whether it was pending.
    fn cancel(&self, handle: Self::Handle) -> bool;
    /// Resets a pending timer.
    fn reset(&self, handle: &mut Self::Handle, delay: Duration);
}
