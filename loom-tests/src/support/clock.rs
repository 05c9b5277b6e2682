//! Replaces the crate's `clock`. Each thread has a current tick, which only the model changes.

use std::cell::Cell;

use crate::sync::thread_static;

thread_static! {
    static NOW: Cell<u64> = const { Cell::new(0) };
}

/// Sets the current tick of the calling thread.
pub(crate) fn set_now(tick: u64) {
    NOW.with(|now| now.set(tick));
}

/// The tick of a deadline, and the tick at which it was computed.
#[derive(Clone, Copy)]
pub(crate) struct Deadline {
    pub(crate) tick: u64,
    pub(crate) now: u64,
}

pub(crate) struct Ticks;

impl Ticks {
    pub(crate) fn now_tick(&self) -> u64 {
        NOW.with(Cell::get)
    }

    pub(crate) fn now_tick_against(&self, _deadline: u64) -> u64 {
        self.now_tick()
    }

    pub(crate) fn present(&self, now: u64) -> u64 {
        now
    }

    pub(crate) fn lateness(&self, deadline: u64) -> u64 {
        self.now_tick().checked_sub(deadline).expect("never early")
    }
}
