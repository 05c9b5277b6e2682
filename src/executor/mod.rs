//! Executors: run expired timers.
//!
//! | file        | concern                                                                          |
//! |-------------|----------------------------------------------------------------------------------|
//! | `executor`  | the executors from which a user chooses, and how drivers dispatch batches to one |
//! | `job_queue` | the queue of every pool: batches, their check, and the loop of a worker          |
//! | `growth`    | how many extra threads run while workers are blocked, and what starts them       |
//! | `pool`      | a service's own pool: its threads                                                |
//! | `borrowed`  | a rayon pool of the program, and its tickets                                     |
//!
//! shuttle explores the files without `cfg(not(loom))`. loom explores none of them.

#[cfg(not(loom))]
mod borrowed;
#[cfg(not(loom))]
#[expect(clippy::module_inception, reason = "what the room is named after")]
mod executor;
mod growth;
pub(crate) mod job_queue;
#[cfg(not(loom))]
mod pool;

#[cfg(not(loom))]
pub use executor::{Execute, Executor};
#[cfg(not(loom))]
pub(crate) use {
    borrowed::BorrowedPool,
    executor::Dispatcher,
    job_queue::{Batch, JobQueue},
    pool::{Pool, join, spawn},
};
