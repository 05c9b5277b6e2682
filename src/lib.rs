//! Timers for high-throughput servers: millions are pending, and many threads set, reset and cancel them at once.
//!
//! Most timers of a server are timeouts that never fire. So [`schedule`](Timer::schedule),
//! [`reset`](TimerHandle::reset) and [`cancel`](TimerHandle::cancel) are a few atomic steps, and take no lock except in
//! virtual time. A one-shot timer that does fire fires once, soon after its deadline and never before it.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use corewheel::Timer;
//! use std::sync::mpsc;
//! use std::time::Duration;
//!
//! let timer = Timer::new()?;
//! let (sender, events) = mpsc::channel();
//! let of_answer = sender.clone();
//! let answer = timer.schedule(Duration::from_secs(30), move || _ = of_answer.send("no answer"))?;
//! let idle = timer.schedule(Duration::from_secs(60), move || _ = sender.send("idle: closing"))?;
//! answer.cancel(); // the answer came
//! idle.reset(Duration::from_millis(500)); // a byte arrived: half a second from now
//! // Ends when each callback has run or was dropped.
//! for event in events {
//!     println!("{event}");
//! }
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A [`Timer`] is a service with threads of its own. Its clones share that service, and [`Timer::global`] is one for
//! the whole process. [`Timer::builder`] has the settings. Keep a `Timer` for as long as its timers matter: the drop of
//! the last clone drops what is pending.
//!
//! # Callbacks
//!
//! | the callback runs                              | method                                |
//! |------------------------------------------------|---------------------------------------|
//! | once, after a delay                            | [`Timer::schedule`]                   |
//! | once, at an instant                            | [`Timer::schedule_at`]                |
//! | repeatedly, at a fixed rate                    | [`Timer::schedule_at_fixed_rate`]     |
//! | repeatedly, with a fixed delay between runs    | [`Timer::schedule_with_fixed_delay`]  |
//! | repeatedly, after delays that it returns       | [`Timer::schedule_with_delays`]       |
//! | repeatedly, at instants that it returns        | [`Timer::schedule_recurring`]         |
//!
//! Each of these returns a [`TimerHandle`]. Dropping the handle detaches the timer, which still fires.
//!
//! | to                                             | method                                |
//! |------------------------------------------------|---------------------------------------|
//! | end a timer                                    | [`TimerHandle::cancel`]               |
//! | end it, and wait for a run in progress         | [`TimerHandle::cancel_and_wait`]      |
//! | end it when a scope ends                       | [`TimerHandle::cancel_on_drop`]       |
//! | give it a new deadline, earlier or later       | [`TimerHandle::reset`], [`TimerHandle::reset_at`] |
//!
//! # Futures
//!
//! [`Timer::sleep`], [`Timer::timeout`] and [`Timer::interval`] work as tokio's do. The futures run on any executor and
//! need no runtime.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use corewheel::Timer;
//! use std::time::Duration;
//!
//! let timer = Timer::new()?;
//! # futures::executor::block_on(async {
//! timer.sleep(Duration::from_millis(5)).await;
//! let answer = timer.timeout(Duration::from_secs(5), async { "pong" }).await;
//! assert_eq!(answer, Ok("pong"));
//! # });
//! # }
//! # Ok::<(), corewheel::BuildError>(())
//! ```
//!
//! # Delay queues
//!
//! A [`DelayQueue`] hands out values when they are due, to consumers that block, poll or stream. A [`DelayKey`] removes
//! or resets one value.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use corewheel::{DelayQueue, Timer};
//! use std::time::Duration;
//!
//! let timer = Timer::new()?;
//! let retries = DelayQueue::new(&timer);
//! retries.push(Duration::from_millis(5), "job 17")?;
//! let due = retries.pop().expect("the timer runs");
//! assert_eq!(due.value, "job 17");
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Virtual time
//!
//! A test of a timeout need not wait for it. On a [`ManualClock`], time passes only when the test advances the clock.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use corewheel::{ManualClock, Timer};
//! use std::time::Duration;
//!
//! let clock = ManualClock::new();
//! let timer = Timer::builder().clock(clock.clone()).build()?;
//! let lease = timer.schedule(Duration::from_secs(3600), || println!("the lease has expired"))?;
//! clock.advance(Duration::from_secs(3600)); // returns when the callback has run
//! assert!(!lease.is_pending());
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Executors
//!
//! By default, callbacks run on a rayon pool of the service's own. [`Builder::executor`] chooses another [`Executor`]:
//! the program's rayon pool, the service's driver threads, or a runtime behind the trait [`Execute`]. The drivers
//! themselves wake the tasks that wait for a future, so async code needs no choice.
//!
//! A callback may block. The default pool then grows, on Linux and Android: see [`Builder::max_extra_threads`].
//! [`Builder::on_slow`] reports callbacks that take long, [`Builder::on_panic`] those that panic.
//!
//! # Shutdown
//!
//! [`Timer::shutdown`] refuses new timers, waits for callbacks that are running, and returns those of pending timers as
//! [`UnfiredTimer`]s. The drop of the last [`Timer`] clone is a shutdown that drops these callbacks. A callback that
//! captures a [`Timer`] therefore keeps the service alive; capture a [`WeakTimer`] instead.
//!
//! # Statistics
//!
//! [`Timer::stats`] counts what has happened to timers, and how late they fired. [`Timer::len`] is the number of
//! pending timers, and [`Timer::census`] tells which code armed them.
//!
//! # Without threads
//!
//! [`Wheel`] is the data structure alone, for one thread: an event loop, a game loop, a simulation or a
//! microcontroller. It reads no clock; its owner advances it. Without default features the crate is `no_std` with
//! `alloc`, and has only `Wheel` and its error: [no-std.md].
//!
//! # Guarantees
//!
//! No callback and no future is early, with two exceptions: a shutdown completes pending futures, and returns callbacks that
//! the program may run. Every accepted one-shot callback ends in exactly one way: it fires, is cancelled, is returned
//! by the shutdown, or is dropped with the last [`Timer`] clone. No call on a timer waits for another thread, unless
//! its documentation says that it does. While nothing is due and no callback runs, the threads sleep, except for a
//! bounded number of wake-ups after timers were scheduled or have ended.
//!
//! [`Timer`](Timer#promises) lists the promises. [`guide::promises`] states each in full, and [checks.md] says
//! why it holds, and how to find the tests and models that check it.
//!
//! # How it works
//!
//! By default, each core has a *shard*: a hierarchical timing wheel, and a *driver* thread. One thread sleeps until the
//! next timer of all shards with little to do; the others sleep. [`Timer::take_driver`] gives a shard to the program's
//! own loop instead. A timer is one cache line, plus a box for a closure that is large or repeats. A thread arms a
//! timer by one atomic step on that line. It enqueues the timer for the driver only if the driver would otherwise come
//! too late. [architecture.md] follows a timer through the crate, and [protocols.md] has the protocols between threads.
//!
//! # Features
//!
//! Only `std` is on by default. Each of the others enables it.
//!
//! | feature        | adds                                                                                         |
//! |----------------|----------------------------------------------------------------------------------------------|
//! | `std`          | everything but [`Wheel`] and its error                                                       |
//! | `futures-core` | `Stream` for [`Interval`] and [`DelayQueue`]                                                 |
//! | `hyper`        | `hyper::rt::Timer` for [`Timer`]: the timeouts of servers and clients                        |
//! | `metrics`      | `corewheel::metrics::Exporter`, which reports [`Stats`] through the `metrics` facade         |
//! | `quinn`        | `corewheel::quinn::Runtime`, for QUIC endpoints                                              |
//! | `tower`        | `corewheel::tower::TimeoutLayer`, for services such as those of axum and tonic               |
//! | `wall`         | `corewheel::wall`: deadlines by the time of day, and by time that counts a suspend           |
//!
//! # Further reading
//!
//! - [`guide`]: when another timer is the better choice, how to change to this one, what each setting does, what to
//!   watch, common questions, and a complete program each for threads, tokio, hyper, axum, quinn, event loops and more
//! - [durable.md]: timers that survive the process
//!
//! [architecture.md]: https://docs.rs/crate/corewheel/latest/source/docs/internals/architecture.md
//! [checks.md]: https://docs.rs/crate/corewheel/latest/source/docs/internals/checks.md
//! [choosing.md]: crate::guide::choosing
//! [durable.md]: https://docs.rs/crate/corewheel/latest/source/docs/durable.md
//! [embedding]: crate::guide
//! [no-std.md]: crate::guide::no_std
//! [protocols.md]: https://docs.rs/crate/corewheel/latest/source/docs/internals/protocols.md
//! [tuning.md]: crate::guide::tuning

// Each test crate uses only some of the dev-dependencies.
#![cfg_attr(not(any(test, loom)), deny(unused_crate_dependencies))]
#![cfg_attr(not(loom), deny(unreachable_pub))]
// Without `std`, nothing uses the part of the wheel that is for shards, and documentation links to absent items.
#![cfg_attr(not(any(feature = "std", loom)), allow(dead_code, unused_imports, rustdoc::broken_intra_doc_links))]
#![cfg_attr(not(any(feature = "std", test, loom)), no_std)]
#![cfg_attr(docsrs, feature(doc_cfg), doc(auto_cfg(hide(loom, feature = "std"))))]

extern crate alloc;

// `loom-tests` and `shuttle-tests` compile this file with `cfg(loom)` instead of the feature `std`. The flag says that a
// tool explores the threads. `cfg(shuttle)` says that this tool is shuttle, not loom.
#[cfg(feature = "std")]
mod adapter;
#[cfg(any(feature = "std", loom))]
pub(crate) mod clock;
#[cfg(feature = "std")]
mod drive;
#[cfg(any(feature = "std", loom))]
pub(crate) mod engine;
pub(crate) mod error;
#[cfg(any(feature = "std", shuttle))]
pub(crate) mod executor;
#[cfg(all(doctest, feature = "std"))]
mod forbidden_tests;
#[cfg(feature = "std")]
mod future;
#[cfg(doc)]
pub mod guide;
#[cfg(feature = "std")]
mod handle;
#[cfg(any(feature = "std", loom))]
pub(crate) mod queue;
#[cfg(any(feature = "std", loom))]
pub(crate) mod shard;
#[cfg(feature = "std")]
mod stats;
#[cfg(any(feature = "std", loom))]
pub(crate) mod sync;
#[cfg(feature = "std")]
mod system;
#[cfg(feature = "std")]
pub mod time;
#[cfg(feature = "std")]
mod timer;
#[cfg(feature = "wall")]
pub mod wall;
pub(crate) mod wheel;

#[cfg(feature = "metrics")]
pub use adapter::metrics;
#[cfg(feature = "quinn")]
pub use adapter::quinn;
#[cfg(feature = "tower")]
pub use adapter::tower;
pub use error::BuildError;
#[cfg(feature = "std")]
pub use rayon;
pub use wheel::{Key, Wheel};
#[cfg(feature = "std")]
pub use {
    clock::ManualClock,
    drive::Driver,
    error::{ScheduleError, ScheduleErrorKind},
    executor::{Execute, Executor},
    future::{Elapsed, Sleep, Timeout},
    handle::{CancelOnDrop, TimerHandle},
    queue::{DelayKey, DelayQueue, Expired},
    shard::{Panicked, SlowCallback},
    stats::{Lateness, ShardStats, Stats},
    timer::{Builder, Group, Interval, MissedTickBehavior, Timer, TimerKind, Unfired, UnfiredTimer, WeakTimer},
};
