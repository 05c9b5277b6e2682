//! How busy a thread has been: apart from the rest, as only tests of adapters ask.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// The processor time that the calling thread has used.
pub fn thread_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap().into()
}
