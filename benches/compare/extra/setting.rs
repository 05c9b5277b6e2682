//! This crate's timer with settings other than the defaults.

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

/// The same with a tick of 1 ms.
pub struct Coarse;

impl Setting for Coarse {
    const NAME: &'static str = "corewheel-coarse";

    fn builder() -> Builder {
        Inline::builder().tick(Duration::from_millis(1))
    }
}

/// `Inline` with a slack of 250 µs.
pub struct Prompt;

impl Setting for Prompt {
    const NAME: &'static str = "corewheel-prompt";

    fn builder() -> Builder {
        Inline::builder().slack(Duration::from_micros(250))
    }
}

/// This number of shards, with the default pool or `Executor::Inline`.
pub struct Shards<const SHARDS: usize, const INLINE: bool>;

impl<const SHARDS: usize, const INLINE: bool> Setting for Shards<SHARDS, INLINE> {
    const NAME: &'static str = match (SHARDS, INLINE) {
        (1, false) => "corewheel-1-shard",
        (2, false) => "corewheel-2-shards",
        (16, false) => "corewheel-16-shards",
        (64, false) => "corewheel-64-shards",
        (1, true) => "corewheel-inline-1-shard",
        (2, true) => "corewheel-inline-2-shards",
        (16, true) => "corewheel-inline-16-shards",
        (64, true) => "corewheel-inline-64-shards",
        _ => panic!("no contender has this number of shards"),
    };

    fn builder() -> Builder {
        let builder = if INLINE { Inline::builder() } else { Timer::builder() };
        builder.shards(SHARDS)
    }
}

/// Callbacks run in the caller's rayon pool.
pub struct Rayon;

impl Setting for Rayon {
    const NAME: &'static str = "corewheel-rayon";

    fn builder() -> Builder {
        Timer::builder().executor(Executor::Rayon(Arc::new(pool())))
    }
}

/// Each callback is a job of such a pool. So the difference from [`Rayon`] is the cost of a custom executor.
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

/// Returns a pool with rayon's defaults: one thread for each core.
fn pool() -> ThreadPool {
    ThreadPoolBuilder::new().build().expect("the pool starts")
}
