//! The room `executor`, as far as shuttle knows it.

#[path = "../../src/executor/batch.rs"]
mod batch;
#[path = "../../src/executor/job_queue/mod.rs"]
mod job_queue;

pub(crate) use batch::{Batch, Loan};
pub(crate) use job_queue::{JobQueue, MonitorThread, STRAGGLER_AFTER, SleepProbe, Waits, WorkerThread};
