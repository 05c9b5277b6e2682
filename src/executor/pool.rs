//! A timer's own rayon pool, whose threads are known and can be waited for.
//!
//! Each thread is a worker of rayon's, so `rayon::join` and the like work inside callbacks as in any pool. But it runs the
//! loop of the [`JobQueue`] before it comes to rayon's own, and stays there until the pool is stopped. An extra thread is
//! the only one of a rayon pool of its own: rayon cannot add a thread to a pool.

use std::cell::Cell;
use std::io;
use std::ptr;
use std::sync::Weak;
use std::thread::{self, JoinHandle};

use super::Dispatcher;
use super::extras::Extras;
use super::job_queue::{JobQueue, SleepProbe, Waits, WorkerThread};
use crate::error::BuildError;
use crate::sync::Arc;
use crate::system::ThreadNumber;

pub(crate) struct Pool {
    workers: Workers,
    queue: Arc<JobQueue>,
    /// `None` if there are never any.
    extras: Option<Arc<Extras>>,
}

/// Threads of one rayon pool that serve a queue.
pub(super) struct Workers {
    /// Dropping it ends rayon's part of the threads, so nothing else may hold it.
    pool: rayon::ThreadPool,
    threads: Vec<JoinHandle<()>>,
}

thread_local! {
    /// The queue that the thread serves all its life.
    static SERVED: Cell<*const JobQueue> = const { Cell::new(ptr::null()) };
}

impl Pool {
    /// Starts the threads. To be called on a thread that is not pinned, as they inherit its cores.
    pub(crate) fn start(threads: usize, max_extra: usize, name: &str) -> Result<Self, BuildError> {
        if threads == 0 {
            return Err(BuildError::NoPoolThreads);
        }
        let queue = Arc::new(JobQueue::new(threads, max_extra));
        let workers = Workers::start(threads, |index| format!("{name}-pool-{index}"), {
            let queue = queue.clone();
            move || serve(&queue, false)
        });
        let workers =
            workers.inspect_err(|_| queue.close()).map_err(|failed| BuildError::ThreadStart(failed.join()))?;
        // Only where the system tells which threads are blocked.
        let grows = max_extra > 0 && ThreadNumber::current().is_some();
        let extras = grows.then(|| Arc::new(Extras::new(&queue, name)));
        Ok(Self { workers, queue, extras })
    }

    pub(crate) fn dispatcher(&self) -> Dispatcher {
        Dispatcher::Own { queue: self.queue.clone(), extras: self.extras.clone() }
    }

    /// What the threads run batches from.
    pub(crate) fn queue(&self) -> &Arc<JobQueue> {
        &self.queue
    }

    /// How many threads the pool has of its own.
    pub(crate) fn threads(&self) -> usize {
        self.workers.threads.len()
    }

    /// Whether the calling thread is one of the pool's.
    pub(crate) fn is_on_this_thread(&self) -> bool {
        serves_here(Arc::as_ptr(&self.queue))
    }

    /// Lets the threads end when they have run what they were given, and with `wait` returns when they have.
    pub(crate) fn stop(self, wait: bool) {
        self.queue.close();
        let threads = self.workers.end();
        if wait {
            threads.into_iter().for_each(join);
            self.extras.into_iter().for_each(|extras| extras.join());
        }
    }
}

/// Tells a thread whether it serves the queue. Keeps no queue.
pub(super) fn is_served_here(queue: &Arc<JobQueue>) -> impl Fn() -> bool + Clone + Send + Sync + 'static {
    // As long as there is a weak one, no other queue is in the same place.
    let queue: Weak<JobQueue> = Arc::downgrade(queue);
    move || serves_here(queue.as_ptr())
}

fn serves_here(queue: *const JobQueue) -> bool {
    ptr::eq(SERVED.get(), queue)
}

/// Makes the calling thread, which is rayon's, a worker of the queue.
pub(super) fn serve(queue: &Arc<JobQueue>, is_extra: bool) {
    SERVED.set(Arc::as_ptr(queue));
    queue.worker_loop(&RayonThread, is_extra);
}

/// Why some threads could not be started, and those that could.
pub(super) struct Failed {
    cause: io::Error,
    threads: Vec<JoinHandle<()>>,
}

impl Failed {
    /// Waits for the end of the threads that were started. They must have been told to end.
    pub(super) fn join(self) -> io::Error {
        // They leave the queue, see that their pool is gone, and end.
        self.threads.into_iter().for_each(join);
        self.cause
    }
}

impl Workers {
    /// Starts a rayon pool, each thread of which runs `serve` first.
    pub(super) fn start(
        threads: usize,
        name: impl Fn(usize) -> String,
        serve: impl Fn() + Send + Sync + 'static,
    ) -> Result<Self, Failed> {
        let mut started = Vec::new();
        let mut failure = None;
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .start_handler(move |_| serve())
            .spawn_handler(|worker| {
                let thread = spawn(name(worker.index()), || worker.run()).map_err(|error| {
                    let kind = error.kind();
                    failure = Some(error);
                    kind
                })?;
                started.push(thread);
                Ok(())
            })
            .build();
        match pool {
            Ok(pool) => Ok(Self { pool, threads: started }),
            Err(error) => {
                let cause = failure.unwrap_or_else(|| io::Error::other(error));
                Err(Failed { cause, threads: started })
            }
        }
    }

    /// Lets the threads end once they do not serve the queue any more.
    pub(super) fn end(self) -> Vec<JoinHandle<()>> {
        drop(self.pool);
        self.threads
    }
}

/// The calling thread, which is a worker of rayon's.
struct RayonThread;

impl Waits for RayonThread {}

impl WorkerThread for RayonThread {
    fn run_own_task(&self) -> bool {
        rayon::yield_local() == Some(rayon::Yield::Executed)
    }

    fn run_any_task(&self) -> bool {
        rayon::yield_now() == Some(rayon::Yield::Executed)
    }

    fn sleep_probe(&self) -> SleepProbe {
        let thread = ThreadNumber::current();
        Arc::new(move || thread.and_then(ThreadNumber::asleep))
    }
}

/// Starts a thread. The name must not contain a NUL character: the standard library would panic.
pub(crate) fn spawn(name: String, f: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name).spawn(f)
}

/// Waits for a thread that does not panic.
pub(crate) fn join(thread: JoinHandle<()>) {
    let _ = thread.join();
}
