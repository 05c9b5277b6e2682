//! A shard: the [engine](crate::engine), bound to a clock, to counters and to an executor.
//!
//! | file                        | concern                                                              |
//! |-----------------------------|----------------------------------------------------------------------|
//! | `binding`                   | what a shard consists of                                             |
//! | `schedule`, `home`          | a new timer, and the shard that it goes to                           |
//! | `raw_handle`                | the transitions of a handle                                          |
//! | `sleep_entry`, `coop`       | the entry of a future, and how the future completes                  |
//! | `thread_state`, `registry`  | what each thread keeps of a shard, and the counters of all threads   |
//! | `limit`, `counts`           | how many timers may be pending, and how many are                     |
//! | `driver`, `load`            | drives the wheel; whether there is much to do                        |
//! | `drive`, `driver_thread`    | the threads that drive, and how a shutdown waits for the driver's own |
//! | `batch`, `stragglers`       | expired timers on their way through the executor, and slow batches   |
//! | `hooks`, `slow`             | runs callbacks; reports panics and slow callbacks                    |
//! | `virtual_time`              | what a shard has in virtual time only                                |
//! | `close`                     | the shutdown                                                         |
//!
//! loom explores the files without `cfg(not(loom))`, with a `Shard` and a `thread_state` of its own.

#[cfg(not(loom))]
mod batch;
#[cfg(not(loom))]
mod binding;
#[cfg(not(loom))]
mod close;
pub(crate) mod coop;
#[cfg(not(loom))]
mod counts;
#[cfg(not(loom))]
mod drive;
#[cfg(not(loom))]
mod driver;
#[cfg(not(loom))]
mod driver_thread;
#[cfg(not(loom))]
mod home;
#[cfg(not(loom))]
mod hooks;
#[cfg(not(loom))]
mod limit;
#[cfg(not(loom))]
mod load;
pub(crate) mod raw_handle;
#[cfg(any(not(loom), all(crossbeam_loom, not(shuttle))))]
pub(crate) mod registry;
#[cfg(not(loom))]
mod schedule;
pub(crate) mod sleep_entry;
#[cfg(not(loom))]
mod slow;
#[cfg(not(loom))]
mod stragglers;
#[cfg(not(loom))]
mod thread_state;
#[cfg(not(loom))]
mod virtual_time;

#[cfg(not(loom))]
pub(crate) use self::{
    binding::{PanicHook, Shard, new_id},
    coop::{Coop, Progress},
    drive::drive,
    driver_thread::DriverThread,
    limit::Limit,
    raw_handle::RawHandle,
    sleep_entry::SleepEntry,
    slow::SlowHook,
};
#[cfg(not(loom))]
pub use slow::SlowCallback;
