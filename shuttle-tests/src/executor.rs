//! The room `executor`, as far as shuttle knows it.

#[path = "../../src/executor/batch.rs"]
mod batch;
#[path = "../../src/executor/job_queue.rs"]
mod job_queue;

pub(crate) use batch::Batch;
pub(crate) use job_queue::{JobQueue, STRAGGLER_AFTER, WorkerThread};
