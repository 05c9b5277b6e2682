//! The service, as its users see it: delays and instants, closures and futures.
//!
//! | file       | concern                                                                  |
//! |------------|--------------------------------------------------------------------------|
//! | `facade`   | `Timer` and `WeakTimer`: read, shut down                                 |
//! | `builder`  | the settings, and the building of a timer from them                      |
//! | `driver`   | `Driver`: the program's own loop drives a shard                          |
//! | `schedule` | schedules callbacks: one-shot, fixed rate, fixed delay, recurring        |
//! | `queues`   | the delay queues of a timer, which its shutdown closes                    |
//! | `sleep`    | makes futures                                                            |
//! | `periodic` | a callback that runs more than once                                      |
//! | `service`  | the shards behind a timer and its clones: start, use, shutdown           |
//! | `threads`  | the threads of a service, and how they end                               |
//! | `unfired`  | the timers that a shutdown hands back                                    |

mod builder;
mod driver;
mod facade;
mod periodic;
mod queues;
mod schedule;
mod service;
mod sleep;
mod threads;
mod unfired;

pub use builder::Builder;
pub use driver::Driver;
pub use facade::{Timer, WeakTimer};
pub(crate) use queues::QueueRef;
pub use unfired::{Unfired, UnfiredTimer};
