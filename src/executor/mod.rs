//! Executors: run expired timers.
//!
//! | file         | concern                                                                    |
//! |--------------|----------------------------------------------------------------------------|
//! | `executor`   | the executors from which a user chooses                                    |
//! | `batch`      | what executors run                                                         |
//! | `dispatcher` | dispatches batches to the executor                                         |
//! | `job_queue`  | the queue of every pool, and the loop of the workers of a service's own pool |
//! | `pool`       | that pool: its threads, and the extra ones while those are blocked         |
//! | `borrowed`   | a rayon pool of the program, and its tickets                               |

pub(crate) mod batch;
#[cfg(not(loom))]
mod borrowed;
#[cfg(not(loom))]
mod dispatcher;
#[cfg(not(loom))]
#[expect(clippy::module_inception, reason = "what the room is named after")]
mod executor;
#[cfg(any(not(loom), shuttle))]
pub(crate) mod job_queue;
#[cfg(not(loom))]
mod pool;

pub(crate) use batch::Batch;
#[cfg(not(loom))]
pub use executor::{Execute, Executor};
#[cfg(not(loom))]
pub(crate) use {
    borrowed::BorrowedPool,
    dispatcher::Dispatcher,
    job_queue::JobQueue,
    pool::{Pool, join, spawn},
};
