//! The files of a shard that take part in a protocol between threads, and a [`Shard`] that combines them.
//!
//! It lacks what loom does not support: clocks, processes, and the counters of threads.
//!
//! | file           | concern                                                    |
//! |----------------|------------------------------------------------------------|
//! | `binding`      | [`Shard`]: the parts of one shard                          |
//! | `hooks`        | counts how timers end                                      |
//! | `thread_state` | the state of a thread for the only shard of a model        |

mod binding;
mod hooks;
pub(crate) mod thread_state;

pub(crate) use binding::Shard;
