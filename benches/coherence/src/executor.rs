//! The part of the crate's `executor` that runs callbacks on the thread that drives: `Executor::Inline` and custom
//! executors. There is no pool.

#[path = "../../../src/executor/growth.rs"]
mod growth;
#[path = "../../../src/executor/job_queue.rs"]
mod job_queue;

use std::any::Any;
use std::fmt;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crate::error::BuildError;
pub(crate) use job_queue::{Batch, JobQueue};

#[derive(Clone, Default)]
pub enum Executor {
    Pool {
        threads: usize,
    },
    Rayon(Pool),
    RayonGlobal,
    #[default]
    Inline,
    Custom(Arc<dyn Execute>),
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Executor")
    }
}

pub trait Execute: Send + Sync + 'static {
    fn execute(&self, job: Box<dyn FnOnce() + Send>);
}

/// An empty type: there is no pool.
#[derive(Clone, Copy)]
pub enum Pool {}

// Stands in for the other type of pool.
pub(crate) type BorrowedPool = Pool;

#[derive(Clone)]
pub(crate) enum Dispatcher {
    Own(Arc<Pool>),
    Borrowed(Arc<BorrowedPool>),
    Inline,
    Custom(Arc<dyn Execute>),
}

impl Dispatcher {
    pub(crate) fn need_this_thread(&self) -> impl Fn() -> bool + Clone + Send + Sync + 'static {
        || false
    }

    pub(crate) fn dispatch<B: Batch>(&self, batch: B, on_panic: impl Fn(Box<dyn Any + Send>)) {
        match self {
            Self::Own(pool) => match **pool {},
            Self::Borrowed(pool) => match **pool {},
            Self::Inline => batch.run(&|| ()),
            Self::Custom(custom) => {
                for single in batch.into_singles() {
                    let execute = || custom.execute(Box::new(move || single.run(&|| ())));
                    if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(execute)) {
                        on_panic(payload);
                    }
                }
            }
        }
    }

    pub(crate) fn queue(&self) -> Option<&JobQueue> {
        None
    }

    pub(crate) fn check(&self, _run_foreign: impl FnOnce(&dyn Fn() -> usize) -> usize) {}
}

impl Pool {
    pub(crate) fn start(
        _threads: usize,
        _max_extra: usize,
        _name: &str,
        _on_panic: impl Fn(Box<dyn Any + Send>),
    ) -> Result<Arc<Self>, BuildError> {
        Err(BuildError::NoPoolThreads)
    }

    pub(crate) fn new(pool: Option<Self>) -> Self {
        pool.expect("there is no global pool")
    }

    pub(crate) fn global() -> Result<Self, BuildError> {
        Err(BuildError::NoPoolThreads)
    }

    pub(crate) fn queue(&self) -> &JobQueue {
        match *self {}
    }

    pub(crate) fn has_this_thread(&self) -> bool {
        match *self {}
    }

    pub(crate) fn stop(&self) {
        match *self {}
    }
}

pub(crate) fn spawn(name: String, f: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name).spawn(f)
}

pub(crate) fn join(thread: JoinHandle<()>) {
    let _ = thread.join();
}
