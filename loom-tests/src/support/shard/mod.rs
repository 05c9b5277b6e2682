//! The files of a shard that take part in a protocol between threads, and a [`Shard`] that combines them.
//!
//! It lacks what loom does not support: clocks, processes, and the counters of threads.
//!
//! | file           | concern                                                    |
//! |----------------|------------------------------------------------------------|
//! | `shard`        | [`Shard`]: the parts of one shard                          |
//! | `hooks`        | what it does around a run, and at its end                  |
//! | `thread_state` | the state of a thread for the only shard of a model        |

mod hooks;
#[expect(clippy::module_inception, reason = "its own name is the best one")]
mod shard;
pub(crate) mod thread_state;

pub(crate) use hooks::SlowRun;
pub(crate) use shard::Shard;
