//! The processor time of a thread: a module of its own, because few tests use it.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// Returns the processor time that the calling thread has used.
pub fn thread_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap().into()
}
