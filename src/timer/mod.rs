//! The service, as its users see it: delays and instants, closures and futures.
//!
//! | file       | concern                                                                  |
//! |------------|--------------------------------------------------------------------------|
//! | `facade`   | `Timer` and `WeakTimer`: build, read, shut down                          |
//! | `builder`  | the settings                                                             |
//! | `schedule` | schedules callbacks: one-shot, fixed rate, fixed delay, recurring        |
//! | `queue`    | joins a delay queue to a timer                                            |
//! | `sleep`    | makes futures                                                            |
//! | `periodic` | when a periodic callback runs next                                       |
//! | `service`  | the shards and the threads behind a timer and its clones, and their end  |
//! | `unfired`  | the timers that a shutdown hands back                                    |

mod builder;
mod facade;
mod periodic;
mod queue;
mod schedule;
mod service;
mod sleep;
mod unfired;

pub use builder::Builder;
pub use facade::{Timer, WeakTimer};
pub use unfired::{Unfired, UnfiredTimer};
