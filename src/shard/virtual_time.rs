//! `VirtualTime`: what a shard has beside its engine if its clock is a [`ManualClock`].
//!
//! [`on_clock`](super::on_clock) uses it.

use std::sync::Weak;

use crate::clock::{ClockShard, ManualClock, Quiescence, Registration};

/// The part of a shard that exists in virtual time only.
pub(super) struct VirtualTime {
    pub(super) quiescence: Quiescence,
    /// Returns whether callbacks may be unable to run before the calling thread is free.
    pub(super) needs_this_thread: Box<dyn Fn() -> bool + Send + Sync>,
    _registration: Registration,
}

impl VirtualTime {
    pub(super) fn new(
        clock: &ManualClock,
        shard: Weak<ClockShard>,
        needs_this_thread: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        Self {
            quiescence: Quiescence::default(),
            needs_this_thread: Box::new(needs_this_thread),
            _registration: clock.register(shard),
        }
    }
}
