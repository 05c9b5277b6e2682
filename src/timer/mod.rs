//! The service, as its users see it: delays and instants, closures and futures.
//!
//! | file       | concern                                                           |
//! |------------|-------------------------------------------------------------------|
//! | `timer`    | `Timer` and `WeakTimer`: read, shut down                          |
//! | `builder`  | the settings, and the building of a timer from them               |
//! | `schedule` | schedules callbacks: one-shot, and periodic in four ways           |
//! | `futures`  | makes futures; `Interval`: ticks for tasks to await, which keep the service alive |
//! | `service`  | the shards and the delay queues of a timer and its clones: start, use, shutdown, threads |
//! | `pending`  | what is pending: by what armed it, and what a shutdown hands back |

mod builder;
mod futures;
mod pending;
mod schedule;
mod service;
#[expect(clippy::module_inception, reason = "what the room is named after")]
mod timer;

pub use builder::Builder;
pub use futures::{Interval, MissedTickBehavior};
pub use pending::{Group, TimerKind, Unfired, UnfiredTimer};
pub(crate) use service::QueueRef;
pub use timer::{Timer, WeakTimer};
