//! The list of contenders, with their settings.

use clap::ValueEnum;

use super::corewheel::Sleeps;
use super::{corewheel, heap, wheel};
use crate::measured::Measured;
use crate::workload::{Order, Workload};

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Contender {
    /// corewheel with a shard for each thread
    Corewheel,
    /// corewheel with two shards
    #[value(name = "corewheel-2")]
    CorewheelOfTwo,
    /// Futures of corewheel with a shard for each thread, polled once
    Sleep,
    /// A binary heap under a lock, with lazy cancellation
    Heap,
    /// A hierarchical wheel under a lock, like tokio's
    Wheel,
}

impl Contender {
    pub fn name(self) -> &'static str {
        match self {
            Self::Corewheel => "corewheel, a shard a thread",
            Self::CorewheelOfTwo => "corewheel, 2 shards",
            Self::Sleep => "corewheel, `Sleep`",
            Self::Heap => "heap, one lock",
            Self::Wheel => "wheel, one lock",
        }
    }

    pub fn run(self, workload: Workload, threads: usize, order: Order) -> Vec<Measured> {
        match self {
            Self::Corewheel => workload.run(threads, order, || corewheel::start(threads)),
            Self::CorewheelOfTwo => workload.run(threads, order, || corewheel::start(2)),
            Self::Sleep => workload.run(threads, order, || Sleeps(corewheel::start(threads))),
            Self::Heap => workload.run(threads, order, heap::HeapTimer::start),
            Self::Wheel => workload.run(threads, order, wheel::WheelTimer::start),
        }
    }
}
