//! Executors: run expired timers.
//!
//! | file         | concern                                                                                  |
//! |--------------|------------------------------------------------------------------------------------------|
//! | `facade`     | the executors from which a user chooses                                                  |
//! | `batch`      | what executors run: batches, and loans of a driver                                       |
//! | `dispatcher` | dispatches batches to the executor                                                       |
//! | `job_queue`  | the queue of a timer's own pool, and the loop of its workers                             |
//! | `pool`       | that pool: its start and its end                                                         |
//! | `workers`    | threads of a rayon pool that serve the queue                                             |
//! | `extras`     | extra threads, while those are blocked                                                   |
//! | `borrowed`   | a rayon pool of the program                                                              |

pub(crate) mod batch;
#[cfg(not(loom))]
mod borrowed;
#[cfg(not(loom))]
mod dispatcher;
#[cfg(not(loom))]
mod extras;
#[cfg(not(loom))]
mod facade;
#[cfg(any(not(loom), shuttle))]
pub(crate) mod job_queue;
#[cfg(not(loom))]
mod pool;
#[cfg(not(loom))]
mod workers;

pub(crate) use batch::{Batch, Loan};
#[cfg(not(loom))]
pub use facade::{Execute, Executor};
#[cfg(not(loom))]
pub(crate) use {
    borrowed::BorrowedPool,
    dispatcher::{Dispatcher, erase},
    job_queue::{ExtraThreads, JobQueue, STRAGGLER_AFTER},
    pool::Pool,
    workers::{join, spawn},
};
