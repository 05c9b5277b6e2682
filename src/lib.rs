//! Timers for high-throughput servers: millions pending, armed, moved and cancelled from many threads at once, of which
//! few fire, but those on time.
//!
//! - [`Timer`] is the service: callbacks once or again and again, on a pool, on the caller's pool, or inline.
//! - [`TimerHandle`] is what it gives out: to cancel a timer, or to move it.
//! - [`Sleep`], [`Timeout`] and [`Interval`] are timers to be awaited, on any executor or none.
//! - [`ManualClock`] is virtual time, for tests.
//! - [`Wheel`] is the data structure alone, single-threaded, for event loops that drive time themselves.
//!
//! ```
//! use corewheel::Timer;
//! use std::time::Duration;
//!
//! let timer = Timer::new()?;
//! let idle = timer.schedule(Duration::from_secs(60), || println!("idle for a minute: closing"))?;
//! idle.reset(Duration::from_secs(60)); // a byte came: a minute from now
//! idle.cancel(); // the peer has closed
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//!
//! None is on by default.
//!
//! | feature        | what it adds                                                                                 |
//! |----------------|----------------------------------------------------------------------------------------------|
//! | `futures-core` | `Stream` for [`Interval`]                                                                    |
//! | `hyper`        | `hyper::rt::Timer` for [`Timer`]: a server's and a client's timeouts                         |
//! | `tower`        | `corewheel::tower::TimeoutLayer`, for services such as axum's and tonic's                    |
//! | `quinn`        | `corewheel::quinn::Runtime`, for QUIC endpoints                                              |
//! | `metrics`      | `corewheel::metrics::Exporter`, which hands [`Stats`] to whatever recorder there is          |
//!
//! # How it works
//!
//! A timer is one cache line. Scheduling it, cancelling it and moving it are a few atomic steps, without a lock; each
//! core has a shard of its own, whose thread sleeps until something is due there.

mod adapter;
mod clock;
mod error;
mod executor;
mod future;
mod handle;
mod shard;
mod stats;
mod sync;
mod system;
mod timer;
mod wheel;

#[cfg(feature = "metrics")]
pub use adapter::metrics;
#[cfg(feature = "quinn")]
pub use adapter::quinn;
#[cfg(feature = "tower")]
pub use adapter::tower;
pub use clock::ManualClock;
pub use error::{BuildError, ScheduleError};
pub use executor::{Execute, Executor};
pub use future::{Elapsed, Interval, MissedTickBehavior, Sleep, Timeout};
pub use handle::{CancelOnDrop, TimerHandle};
pub use rayon;
pub use stats::{Lateness, ShardStats, Stats};
pub use timer::{Builder, Timer, Unfired, UnfiredTimer, WeakTimer};
pub use wheel::{Key, Wheel};

/// How many threads can run at once, as far as the system tells.
fn parallelism() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// The programs of `docs/embedding`, compiled and run as tests.
#[cfg(doctest)]
mod embedding {
    #[doc = include_str!("../docs/embedding/threads.md")]
    mod threads {}
    #[doc = include_str!("../docs/embedding/tokio.md")]
    mod tokio {}
    #[cfg(feature = "hyper")]
    #[doc = include_str!("../docs/embedding/hyper.md")]
    mod hyper {}
    #[cfg(feature = "tower")]
    #[doc = include_str!("../docs/embedding/axum.md")]
    mod axum {}
    #[cfg(feature = "quinn")]
    #[doc = include_str!("../docs/embedding/quinn.md")]
    mod quinn {}
}
