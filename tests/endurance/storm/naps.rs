//! Waits with a limit that only a running process uses up.
//!
//! The limit is a number of naps, not a time: while the whole process is stopped, or the machine sleeps, no nap ends.
//! By the clock, every timer of such a process would look lost.

use std::time::Duration;

/// Waits until `is_over`, for at least `limit` of naps. Returns whether it is over.
pub fn wait(limit: Duration, nap: Duration, sleep: fn(Duration), is_over: impl Fn() -> bool) -> bool {
    for _ in 0..limit.div_duration_f64(nap) as u64 {
        if is_over() {
            return true;
        }
        sleep(nap);
    }
    is_over()
}
