//! A timer's own rayon pool. Its threads are known and can be joined.

use super::dispatcher::Dispatcher;
use super::extras::Extras;
use super::job_queue::JobQueue;
use super::workers::{Panicked, Workers, join, serve};
use crate::error::BuildError;
use crate::sync::Arc;
use crate::system::ThreadNumber;

pub(crate) struct Pool {
    workers: Workers,
    queue: Arc<JobQueue>,
    /// `None` if the pool never grows.
    extras: Option<Arc<Extras>>,
}

impl Pool {
    /// Starts the threads. The calling thread must not be pinned, because they inherit its cores. `panicked` receives the
    /// payloads of panics in work that callbacks have given to rayon.
    pub(crate) fn start(threads: usize, max_extra: usize, name: &str, panicked: Panicked) -> Result<Self, BuildError> {
        if threads == 0 {
            return Err(BuildError::NoPoolThreads);
        }
        // The pool grows only where the system tells which threads are asleep.
        let grows = max_extra > 0 && ThreadNumber::current().is_some();
        let queue = Arc::new(JobQueue::new(threads, if grows { max_extra } else { 0 }));
        let served = queue.clone();
        let serve = move |_| serve(&served, false);
        let workers = Workers::start(threads, |index| format!("{name}-pool-{index}"), serve, panicked.clone());
        let workers = workers.map_err(|(cause, started)| {
            queue.close();
            started.into_iter().for_each(join);
            BuildError::ThreadStart(cause)
        })?;
        let extras = grows.then(|| Arc::new(Extras::new(&queue, name, panicked)));
        Ok(Self { workers, queue, extras })
    }

    pub(crate) fn dispatcher(&self) -> Dispatcher {
        Dispatcher::Own { queue: self.queue.clone(), extras: self.extras.clone() }
    }

    /// Returns the queue that the threads serve.
    pub(crate) fn queue(&self) -> &Arc<JobQueue> {
        &self.queue
    }

    /// Makes the threads leave the queue, and end once no work is left. With `wait`, returns when they have ended.
    pub(crate) fn stop(self, wait: bool) {
        self.queue.close();
        let threads = self.workers.end();
        if wait {
            threads.into_iter().for_each(join);
            self.extras.into_iter().for_each(|extras| extras.join());
        }
    }
}
