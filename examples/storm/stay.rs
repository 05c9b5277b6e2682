//! How a callback of the storm keeps its thread.

use std::hint;
use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

/// Milliseconds that it sleeps: long enough for a pool to notice that its threads are blocked, and to start others.
const SLEEP: Range<u64> = 20..50;
/// Milliseconds that it spins: not blocked, but late to come back.
const SPIN: Range<u64> = 1..5;

pub enum Stay {
    Sleep(Duration),
    Spin(Duration),
}

impl Stay {
    /// Mostly a sleep.
    pub fn random(random: &mut Rng) -> Self {
        if random.u8(..4) > 0 {
            Self::Sleep(Duration::from_millis(random.u64(SLEEP)))
        } else {
            Self::Spin(Duration::from_millis(random.u64(SPIN)))
        }
    }

    pub fn keep(self) {
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
