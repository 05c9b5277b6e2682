//! Threads of a rayon pool that serve a queue of jobs.
//!
//! Each thread belongs to rayon, so `join`, `scope` and `par_iter` work inside callbacks as in any pool. The thread's
//! start handler runs the loop of the [`JobQueue`] until the pool is stopped; only then does rayon's own loop begin.

use std::any::Any;
use std::cell::Cell;
use std::io;
use std::mem;
use std::ptr;
use std::sync::{OnceLock, Weak};
use std::thread::{self, JoinHandle};

use super::job_queue::{JobQueue, SleepProbe, WorkerThread};
use crate::sync::Arc;
use crate::system::ThreadNumber;

/// Receives the payload of a panic. Must not panic.
pub(crate) type Panicked = Arc<dyn Fn(Box<dyn Any + Send>) + Send + Sync>;

/// Threads of one rayon pool that serve a queue.
pub(super) struct Workers {
    /// The drop of the pool makes rayon's part of the threads end. Each thread has a reference while it serves: a callback
    /// may still give work to rayon.
    pool: Arc<OnceLock<rayon::ThreadPool>>,
    threads: Vec<JoinHandle<()>>,
}

thread_local! {
    /// The queue of the pool to which this thread belongs, from its start to its end.
    static SERVED: Cell<*const JobQueue> = const { Cell::new(ptr::null()) };
}

/// Returns a function that returns whether the calling thread serves the queue. The function keeps no queue alive.
pub(super) fn is_served_here(queue: &Arc<JobQueue>) -> impl Fn() -> bool + Clone + Send + Sync + 'static {
    // The weak reference keeps the allocation, so no other queue can have the same address.
    let queue: Weak<JobQueue> = Arc::downgrade(queue);
    move || serves_here(queue.as_ptr())
}

pub(crate) fn serves_here(queue: *const JobQueue) -> bool {
    ptr::eq(SERVED.get(), queue)
}

/// Makes the calling thread, which belongs to rayon, one on which callbacks of the queue may have to wait.
pub(super) fn belong_to(queue: &Arc<JobQueue>) {
    SERVED.set(Arc::as_ptr(queue));
}

/// Makes the calling thread, which belongs to rayon, a worker of the queue.
pub(super) fn serve(queue: &Arc<JobQueue>, is_extra: bool) {
    belong_to(queue);
    queue.worker_loop(&RayonThread, is_extra);
}

/// The start of a pool failed: the reason, and the threads that were started before. Once the queue is closed, each of
/// them finds that its pool is gone, and ends.
pub(super) type StartError = (io::Error, Vec<JoinHandle<()>>);

impl Workers {
    /// Starts a rayon pool. Each of its threads runs `serve` with its index first. `panicked` receives the payloads of
    /// panics in work that callbacks have given to the pool.
    pub(super) fn start(
        threads: usize,
        name: impl Fn(usize) -> String,
        serve: impl Fn(usize) + Send + Sync + 'static,
        panicked: Panicked,
    ) -> Result<Self, StartError> {
        let mut started = Vec::new();
        let mut failure = None;
        let pool = Arc::new(OnceLock::new());
        let weak = Arc::downgrade(&pool);
        let serve = move |index| {
            let _pool = weak.upgrade();
            serve(index);
        };
        let built = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .start_handler(serve)
            .panic_handler(move |payload| panicked(payload))
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
        match built {
            Ok(built) => {
                _ = pool.set(built);
                Ok(Self { pool, threads: started })
            }
            Err(error) => Err((failure.unwrap_or_else(|| io::Error::other(error)), started)),
        }
    }

    /// Makes the threads end once they no longer serve the queue.
    pub(super) fn end(self) -> Vec<JoinHandle<()>> {
        drop(self.pool);
        self.threads
    }
}

/// The calling thread, which belongs to rayon.
struct RayonThread;

impl WorkerThread for RayonThread {
    fn run_own_task(&self) -> bool {
        rayon::yield_local() == Some(rayon::Yield::Executed)
    }

    fn run_any_task(&self) -> bool {
        rayon::yield_now() == Some(rayon::Yield::Executed)
    }

    fn sleep_probe(&self) -> SleepProbe {
        let thread = ThreadNumber::current();
        Arc::new(move || thread.and_then(ThreadNumber::sleeps_if_asleep))
    }
}

/// Starts a thread. The name must not contain a NUL character, because the standard library would panic.
pub(crate) fn spawn(name: String, f: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name).spawn(f)
}

/// Waits for the end of a thread.
pub(crate) fn join(thread: JoinHandle<()>) {
    if let Err(payload) = thread.join() {
        // Leaked, as its drop may panic.
        mem::forget(payload);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::resume_unwind;

    use super::*;

    struct PanicOnDrop;

    impl Drop for PanicOnDrop {
        fn drop(&mut self) {
            panic!("a payload is dropped");
        }
    }

    #[test]
    fn the_payload_of_a_thread_that_has_panicked_is_not_dropped() {
        join(thread::spawn(|| resume_unwind(Box::new(PanicOnDrop))));
    }
}
