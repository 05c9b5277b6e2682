//! Timers for high-throughput servers: millions pending, armed, moved and cancelled from many threads at once, of which
//! few fire, but those on time.
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
//! # What you want
//!
//! | to have something happen              |                                                                             |
//! |---------------------------------------|-----------------------------------------------------------------------------|
//! | once, after a delay, or at an instant | [`Timer::schedule`], [`Timer::schedule_at`]                                 |
//! | every so often, on a fixed grid       | [`Timer::schedule_at_fixed_rate`]                                           |
//! | again and again, with a pause between | [`Timer::schedule_with_fixed_delay`]                                        |
//! | whenever it says itself               | [`Timer::schedule_recurring`]                                               |
//!
//! | to a timer that is pending            |                                                                             |
//! |---------------------------------------|-----------------------------------------------------------------------------|
//! | stop it                               | [`TimerHandle::cancel`]                                                     |
//! | stop it, and drop the handle, for less  | [`TimerHandle::cancel_and_drop`]                                          |
//! | stop it, and know that it is not running | [`TimerHandle::cancel_and_wait`]                                         |
//! | put it off, or bring it forward       | [`TimerHandle::reset`], [`TimerHandle::reset_at`]                           |
//! | stop it when a scope ends             | [`TimerHandle::cancel_on_drop`]                                             |
//! | leave it alone                        | drop the handle: it fires                                                   |
//!
//! | in async code, on any executor or none |                                                                            |
//! |---------------------------------------|-----------------------------------------------------------------------------|
//! | wait                                  | [`Timer::sleep`], [`Timer::sleep_until`]                                    |
//! | give up on something                  | [`Timer::timeout`], [`Timer::timeout_at`]                                   |
//! | wait again and again                  | [`Timer::interval`], [`Timer::interval_at`]                                 |
//!
//! | of the service                        |                                                                             |
//! |---------------------------------------|-----------------------------------------------------------------------------|
//! | one for the whole process             | [`Timer::global`]                                                           |
//! | a finer tick, fewer threads, a limit  | [`Timer::builder`]                                                          |
//! | callbacks on a pool of your own, inline, or on a runtime | [`Executor`]                                             |
//! | to be told of panics                  | [`Builder::on_panic`]                                                       |
//! | to be told of callbacks that block    | [`Builder::on_slow`]                                                        |
//! | how late, how many, how often         | [`Timer::stats`], [`Timer::len`]                                            |
//! | to end it, and have back what has not fired | [`Timer::shutdown`]                                                   |
//! | not to keep it alive in a callback    | [`Timer::downgrade`]                                                        |
//!
//! | otherwise                             |                                                                             |
//! |---------------------------------------|-----------------------------------------------------------------------------|
//! | tests of timeouts that take no time   | [`ManualClock`], by [`Builder::clock`]                                      |
//! | a wheel in an event loop, a game loop, a simulation | [`Wheel`]: the data structure alone, for one thread           |
//!
//! # What it promises
//!
//! No callback and no future is early; the one exception is a future that a shutdown completes. Every timer that is
//! accepted fires, or is cancelled, or is handed back by the shutdown: one of these, once. No call waits for another
//! thread, except those that say so. While nothing is due, the threads sleep, except to give memory back. See [`Timer`]
//! for the list.
//!
//! # How it works
//!
//! A timer is one cache line, and a box where its closure is large. Scheduling it, cancelling it and resetting it are a
//! few atomic steps, without a lock (but in virtual time). By default there is a shard for each core: a hierarchical timing
//! wheel, whose thread sleeps until something is due there. What is due runs on a pool of threads.
//!
//! In the repository, `docs` tells more: `architecture.md`, the way of a timer; `protocols.md`, why the threads do not
//! get into each other's way; `guarantees.md`, what checks each promise; `choosing.md`, when to take something else;
//! `tuning.md`, what each setting does; `durable.md`, timers that survive the process; and `embedding`, a complete program
//! for threads, tokio, hyper, axum and quinn each.
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

// Tests have more to choose from than they use each.
#![cfg_attr(not(any(test, loom)), deny(unused_crate_dependencies))]

#[cfg(not(loom))]
mod adapter;
pub(crate) mod clock;
pub(crate) mod engine;
pub(crate) mod error;
pub(crate) mod executor;
#[cfg(not(loom))]
mod future;
#[cfg(not(loom))]
mod handle;
pub(crate) mod shard;
#[cfg(not(loom))]
mod stats;
pub(crate) mod sync;
#[cfg(not(loom))]
mod system;
#[cfg(not(loom))]
mod timer;
pub(crate) mod wheel;

#[cfg(all(feature = "metrics", not(loom)))]
pub use adapter::metrics;
#[cfg(all(feature = "quinn", not(loom)))]
pub use adapter::quinn;
#[cfg(all(feature = "tower", not(loom)))]
pub use adapter::tower;
pub use error::{BuildError, ScheduleError};
#[cfg(not(loom))]
pub use rayon;
pub use wheel::{Key, Wheel};
#[cfg(not(loom))]
pub use {
    clock::ManualClock,
    executor::{Execute, Executor},
    future::{Elapsed, Interval, MissedTickBehavior, Sleep, Timeout},
    handle::{CancelOnDrop, TimerHandle},
    shard::SlowCallback,
    stats::{Lateness, ShardStats, Stats},
    timer::{Builder, Timer, Unfired, UnfiredTimer, WeakTimer},
};

/// The programs in `docs`, compiled and run as tests.
#[cfg(doctest)]
mod docs {
    #[doc = include_str!("../docs/choosing.md")]
    mod choosing {}
    #[doc = include_str!("../docs/tuning.md")]
    mod tuning {}
    #[doc = include_str!("../docs/embedding/threads.md")]
    mod threads {}
}
