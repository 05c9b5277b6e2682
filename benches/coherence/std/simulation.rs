//! A simulation: logical threads, whose accesses are counted.

use super::{count, schedule};

/// Runs `f` as the first logical thread of a simulation. `f` must join all threads that it starts. A turn has
/// `mean_turn` accesses on average.
pub fn simulate<R>(seed: u64, mean_turn: u64, f: impl FnOnce() -> R) -> R {
    schedule::run(seed, mean_turn, || {
        count::reset();
        f()
    })
}
