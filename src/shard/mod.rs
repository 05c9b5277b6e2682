//! A shard: the [engine](crate::engine), bound to a clock, to counters and to the user's hooks.
//!
//! The engine has the protocols between threads, in ticks and entries. This room has the ways of callers, of the driver and
//! of workers through them. The table follows a timer from `schedule` to its end:
//!
//! | file                  | concern                                                                  |
//! |-----------------------|--------------------------------------------------------------------------|
//! | `shard`               | `Shard`: the parts of one shard; chooses a thread's home; sums counters  |
//! | *the caller's side*   |                                                                          |
//! | `thread_state`        | a thread's own part of each shard: its counters and its cache            |
//! | `schedule`            | `NewTimer`: accepts or refuses a new timer; the permits under `max_pending` |
//! | `raw_handle`          | `cancel`, `reset` and `release`: the transitions that a handle makes     |
//! | `sleep_entry`         | the timer of a future                                                    |
//! | `budget`              | whether a poll may complete without being pending                        |
//! | *a worker's side*     |                                                                          |
//! | `run`                 | how a worker runs an expired timer                                       |
//! | `user_hooks`          | the user's hooks `on_panic` and `on_slow`                                |
//! | *the rest*            |                                                                          |
//! | `counter_registry`    | the counters of all threads                                              |
//! | `virtual_time`        | what a shard has in virtual time, and how a `ManualClock` waits for it   |
//! | `close`               | the shutdown                                                             |
//!
//! loom explores the files without `cfg(not(loom))`. Its models have a `Shard` and a `thread_state` of their own.

pub(crate) mod budget;
#[cfg(not(loom))]
mod close;
#[cfg(any(not(loom), all(crossbeam_loom, not(shuttle))))]
pub(crate) mod counter_registry;
pub(crate) mod raw_handle;
mod run;
#[cfg(not(loom))]
mod schedule;
#[cfg(not(loom))]
#[expect(clippy::module_inception, reason = "`Shard` is what the room is named after")]
mod shard;
pub(crate) mod sleep_entry;
#[cfg(not(loom))]
pub(crate) mod thread_state;
#[cfg(not(loom))]
mod user_hooks;
#[cfg(not(loom))]
mod virtual_time;

#[cfg(not(loom))]
pub use self::user_hooks::{Panicked, SlowCallback};
#[cfg(not(loom))]
pub(crate) use self::{
    raw_handle::RawHandle,
    schedule::NewTimer,
    shard::{Shard, ShardSettings},
    sleep_entry::{Phase, SleepEntry},
    user_hooks::{OnPanic, SlowHook, SlowRun},
};
