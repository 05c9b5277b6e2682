//! A callback of the storm that keeps its thread busy.

use std::hint;
use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

/// Milliseconds of a sleep: enough for a pool to notice that its threads are blocked, and to start others.
const SLEEP: Range<u64> = 20..50;
/// Milliseconds of a spin, which keeps the thread but does not block it.
const SPIN: Range<u64> = 1..5;

pub enum SlowRun {
    Sleep(Duration),
    Spin(Duration),
}

impl SlowRun {
    /// Returns a sleep in three of four cases, else a spin.
    pub fn random(random: &mut Rng) -> Self {
        if random.u8(..4) > 0 {
            Self::Sleep(Duration::from_millis(random.u64(SLEEP)))
        } else {
            Self::Spin(Duration::from_millis(random.u64(SPIN)))
        }
    }

    pub fn run(self) {
        match self {
            Self::Sleep(time) => thread::sleep(time),
            Self::Spin(time) => {
                let end = Instant::now() + time;
                while Instant::now() < end {
                    hint::spin_loop();
                }
            }
        }
    }
}
