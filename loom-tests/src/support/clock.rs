//! Replaces the crate's `clock`. Each thread has a current tick, which only the model changes.

use std::cell::Cell;
use std::marker::PhantomData;

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

/// In the crate, keeps virtual time from advancing.
pub(crate) struct Pinned<'a>(PhantomData<&'a Ticks>);

impl Drop for Pinned<'_> {
    fn drop(&mut self) {}
}

pub(crate) struct Ticks;

impl Ticks {
    pub(crate) fn now_tick(&self) -> u64 {
        NOW.with(Cell::get)
    }

    pub(crate) fn now_tick_for(&self, _tick: u64) -> u64 {
        self.now_tick()
    }

    pub(crate) fn pin(&self, now: u64) -> (Option<Pinned<'_>>, u64) {
        (None, now)
    }

    pub(crate) fn pinned_tick(&self, _pinned: Option<&Pinned<'_>>) -> u64 {
        self.now_tick()
    }
}
