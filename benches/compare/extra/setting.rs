//! This crate's timer with other settings than the defaults.

use std::sync::Arc;
use std::time::Duration;

use corewheel::rayon::{ThreadPool, ThreadPoolBuilder};
use corewheel::{Builder, Execute, Executor, Timer};

use crate::contender::corewheel::Setting;

/// A tick of 100 µs.
pub struct Fine;

impl Setting for Fine {
    const NAME: &'static str = "corewheel-fine";

    fn builder() -> Builder {
        Timer::builder().tick(Duration::from_micros(100))
    }
}

/// Callbacks run on the shards' own threads.
pub struct Inline;

impl Setting for Inline {
    const NAME: &'static str = "corewheel-inline";

    fn builder() -> Builder {
        Timer::builder().executor(Executor::Inline)
    }
}

/// Callbacks run in a pool of the caller's.
pub struct Rayon;

impl Setting for Rayon {
    const NAME: &'static str = "corewheel-rayon";

    fn builder() -> Builder {
        Timer::builder().executor(Executor::Rayon(Arc::new(pool())))
    }
}

/// The same pool, which gets a job for each callback. So the two differ by what an executor of the user's own costs.
pub struct Custom;

impl Setting for Custom {
    const NAME: &'static str = "corewheel-custom";

    fn builder() -> Builder {
        Timer::builder().executor(Executor::Custom(Arc::new(Jobs(pool()))))
    }
}

struct Jobs(ThreadPool);

impl Execute for Jobs {
    fn execute(&self, job: Box<dyn FnOnce() + Send>) {
        self.0.spawn(job);
    }
}

/// With rayon's defaults: as many threads as cores.
fn pool() -> ThreadPool {
    ThreadPoolBuilder::new().build().expect("the pool starts")
}
