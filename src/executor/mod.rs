//! Executors: run expired timers.
//!
//! | file         | concern                                                                                  |
//! |--------------|------------------------------------------------------------------------------------------|
//! | `kinds`      | the executors from which a user chooses                                                  |
//! | `batch`      | what an executor knows of the timers that it runs                                        |
//! | `dispatcher` | dispatches batches to the executor                                                       |
//! | `job_queue`  | where batches wait for the workers of a timer's own pool                                 |
//! | `pool`, `extras` | the workers of that pool, and the extra ones while those are blocked                 |
//! | `borrowed`   | a rayon pool that others use, too                                                        |

pub(crate) mod batch;
#[cfg(not(loom))]
mod borrowed;
#[cfg(not(loom))]
mod dispatcher;
#[cfg(not(loom))]
mod extras;
pub(crate) mod job_queue;
#[cfg(not(loom))]
mod kinds;
#[cfg(not(loom))]
mod pool;

pub(crate) use batch::{Batch, Loan};
#[cfg(not(loom))]
pub use kinds::{Execute, Executor};
#[cfg(not(loom))]
pub(crate) use {
    borrowed::BorrowedPool,
    dispatcher::{Dispatcher, erase},
    job_queue::{ExtraThreads, JobQueue, STRAGGLER_AFTER},
    pool::{Pool, join, spawn},
};
