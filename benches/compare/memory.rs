//! The growth of the resident memory of this process.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::system::resident_bytes;

pub const MIB: f64 = (1 << 20) as f64;
/// Interval between two samples.
const SAMPLE: Duration = Duration::from_millis(20);

/// The growth since the start, which a thread samples.
pub struct Growth {
    before: u64,
    done: Sender<()>,
    sampler: JoinHandle<Vec<(f64, f64)>>,
}

impl Growth {
    pub fn start() -> Self {
        let before = resident_bytes();
        let (done, ends) = mpsc::channel();
        let sample = move || {
            let start = Instant::now();
            let mut curve = Vec::new();
            while ends.recv_timeout(SAMPLE) == Err(RecvTimeoutError::Timeout) {
                curve.push((start.elapsed().as_secs_f64(), since(before) / MIB));
            }
            curve
        };
        Self { before, done, sampler: thread::spawn(sample) }
    }

    /// Returns the growth by now.
    pub fn bytes(&self) -> f64 {
        since(self.before)
    }

    /// Returns the samples: the seconds since the start, and the growth in MiB.
    pub fn end(self) -> Vec<(f64, f64)> {
        drop(self.done);
        self.sampler.join().expect("the sampler ends")
    }
}

fn since(before: u64) -> f64 {
    resident_bytes().saturating_sub(before) as f64
}
