//! `Periodic`: a callback that runs more than once.
//!
//! A worker calls [`PeriodicCallback::run`] for each run, and the engine arms the entry for the tick that it returns.
//! The `run` of a schedule runs the callback and returns the next deadline; `schedule.rs` has them.
//!
//! | schedule    | the next run                                                    |
//! |-------------|-----------------------------------------------------------------|
//! | fixed rate  | one period after the deadline of the last run                   |
//! | fixed delay | one delay after the end of the last run                         |
//! | recurring   | at the instant that the callback returns; `None` ends the timer |
//! | with delays | the returned time after the end of the last run; `None` ends it |

use std::any;
use std::time::Instant;

use crate::clock::{Deadline, Requested, Ticks};
use crate::engine::entry::PeriodicCallback;

/// A periodic callback and its schedule, with the exact deadline of its next run.
///
/// The entry has only the tick. Periods that are counted from rounded ticks would drift.
pub(super) struct Periodic<F, R> {
    pub(super) f: F,
    /// Runs `f`, whose deadline is the given instant. Returns the next deadline, or `None` to end the timer.
    pub(super) run: R,
    pub(super) ticks: Ticks,
    pub(super) next: Requested,
}

impl<F, R> PeriodicCallback for Periodic<F, R>
where
    F: Send,
    R: FnMut(&mut F, Instant, &Ticks) -> Option<Deadline> + Send,
{
    fn run(&mut self) -> Option<u64> {
        let next = (self.run)(&mut self.f, self.ticks.display_requested(self.next), &self.ticks)?;
        self.next = next.requested;
        Some(next.tick)
    }

    fn reset(&mut self, due: u64) {
        self.next = self.ticks.after_reset(due);
    }

    fn type_name() -> &'static str {
        any::type_name::<F>()
    }
}
