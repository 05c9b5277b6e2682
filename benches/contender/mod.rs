//! What a timer must be able to do to be measured, and the timers that are.
//!
//! To add one, give it a file here that implements [`Contender`], and its place in [`ALL`].

mod check;
mod corewheel;
mod heap;

use std::time::Duration;

use crate::workload::{Rig, rig};

/// Those who compete.
pub const ALL: [Entrant; 2] = [Entrant::new::<corewheel::CoreWheel>(), Entrant::new::<heap::HeapTimer>()];

/// A timer that calls closures when they are due. Dropping it ends its threads.
pub trait Contender: Send + Sync + Sized + 'static {
    /// What it is called in the results.
    const NAME: &'static str;

    /// One pending timer. Dropping it lets the timer run on.
    type Handle: Send;

    /// Starts it, with the settings that its users get by default.
    fn start() -> Self;

    /// Calls `callback` once, not before `delay` has passed.
    fn schedule(&self, delay: Duration, callback: impl FnOnce() + Send + 'static) -> Self::Handle;

    /// Ends a timer; true if it had not ended before. Its callback will not be called then.
    fn cancel(&self, handle: Self::Handle) -> bool;

    /// Moves a timer to `delay` from now, in the best way it has; true if it had not ended before.
    fn rearm(&self, handle: &mut Self::Handle, delay: Duration) -> bool;
}

/// A contender on the list.
#[derive(Clone, Copy)]
pub struct Entrant {
    pub name: &'static str,
    /// Panics if it does not do what is going to be measured.
    pub check: fn(),
    /// Starts it with so many standing timers.
    pub rig: fn(usize) -> Box<dyn Rig>,
}

impl Entrant {
    const fn new<C: Contender>() -> Self {
        Self { name: C::NAME, check: check::check::<C>, rig: rig::<C> }
    }
}
