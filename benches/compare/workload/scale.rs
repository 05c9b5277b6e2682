//! How large the workloads are.

use std::time::Duration;

use crate::system;

/// Upper bound of the memory of a timer, for every contender.
const BYTES_PER_TIMER: u64 = 500;
/// Delay of the standing timers, which never fire.
pub const STANDING: Duration = Duration::from_secs(30 * 60);

/// The size of the workloads.
#[derive(Clone, Copy)]
pub struct Scale {
    pub quick: bool,
}

impl Scale {
    pub fn pick<T>(self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }
}

/// Formats a count that is a power of ten.
pub fn count(n: usize) -> String {
    if n == 0 { "none".into() } else { format!("10^{}", n.ilog10()) }
}

/// Returns whether this number of timers fits into memory, for every contender.
pub fn fits(timers: usize) -> bool {
    timers as u64 * BYTES_PER_TIMER < system::available_bytes()
}
