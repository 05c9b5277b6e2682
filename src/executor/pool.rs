//! A timer's own rayon pool, whose threads are known and can be waited for.
//!
//! Each thread is a worker of rayon's, so `rayon::join` and the like work inside callbacks as in any pool. But it runs the
//! loop of the [`JobQueue`] before it comes to rayon's own, and stays there until the pool is stopped.

use std::io;
use std::thread::{self, JoinHandle, ThreadId};
use std::time::{Duration, Instant};

use super::job_queue::{JobQueue, WorkerThread};
use crate::error::BuildError;
use crate::sync::{Arc, Condvar, MutexGuard};

pub(crate) struct Pool {
    /// Dropping it ends rayon's part of the threads, so nothing else may hold it.
    pool: rayon::ThreadPool,
    queue: Arc<JobQueue>,
    threads: Vec<JoinHandle<()>>,
}

impl Pool {
    /// Starts the threads. To be called on a thread that is not pinned, as they inherit its cores.
    pub(crate) fn start(threads: usize, name: &str) -> Result<Self, BuildError> {
        if threads == 0 {
            return Err(BuildError::NoPoolThreads);
        }
        let queue = Arc::new(JobQueue::new());
        let workers = queue.clone();
        let mut started = Vec::new();
        let mut failure = None;
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .start_handler(move |_| workers.worker_loop(&RayonThread))
            .spawn_handler(|worker| {
                let name = format!("{name}-pool-{}", worker.index());
                let thread = spawn(name, || worker.run()).map_err(|error| {
                    let kind = error.kind();
                    failure = Some(error);
                    kind
                })?;
                started.push(thread);
                Ok(())
            })
            .build();
        match pool {
            Ok(pool) => Ok(Self { pool, queue, threads: started }),
            Err(error) => {
                // The threads that did start leave the queue, see that their pool is gone, and end.
                queue.close();
                started.into_iter().for_each(join);
                let cause = failure.unwrap_or_else(|| io::Error::other(error));
                Err(BuildError::ThreadStart(cause))
            }
        }
    }

    /// What the threads run batches from.
    pub(crate) fn queue(&self) -> &Arc<JobQueue> {
        &self.queue
    }

    pub(crate) fn thread_ids(&self) -> impl Iterator<Item = ThreadId> {
        self.threads.iter().map(|thread| thread.thread().id())
    }

    /// Whether the calling thread is one of the pool's.
    pub(crate) fn is_on_this_thread(&self) -> bool {
        self.thread_ids().any(|id| id == thread::current().id())
    }

    /// Lets the threads end when they have run what they were given, and with `wait` returns when they have.
    pub(crate) fn stop(self, wait: bool) {
        self.queue.close();
        drop(self.pool);
        if wait {
            self.threads.into_iter().for_each(join);
        }
    }
}

/// The calling thread, which is a worker of rayon's.
struct RayonThread;

impl WorkerThread for RayonThread {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn run_own_task(&self) -> bool {
        rayon::yield_local() == Some(rayon::Yield::Executed)
    }

    fn run_any_task(&self) -> bool {
        rayon::yield_now() == Some(rayon::Yield::Executed)
    }

    fn wait_timeout<'a, T>(
        &self,
        call: &Arc<Condvar>,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> MutexGuard<'a, T> {
        call.wait_timeout(guard, timeout).unwrap_or_else(|poisoned| poisoned.into_inner()).0
    }
}

/// Starts a thread, with an error where the standard library would panic.
pub(crate) fn spawn(name: String, f: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    if name.contains('\0') {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a thread's name cannot contain a NUL character"));
    }
    thread::Builder::new().name(name).spawn(f)
}

/// Waits for a thread that does not panic.
pub(crate) fn join(thread: JoinHandle<()>) {
    let _ = thread.join();
}
