//! A service's own pool: threads that run the jobs of a queue. They are known and can be joined.
//!
//! Each thread is a rayon pool of one thread. So `join`, `scope`, `par_iter` and `broadcast` work inside callbacks, and
//! nothing in rayon's queues waits for another thread. The loop of the [`JobQueue`] is the first job of that pool, and the
//! bottom of its stack. Between callbacks, the loop runs what these have `spawn`ed. rayon ends the thread once the loop
//! has returned and no work is left.
//!
//! *Extra* threads differ from the others only in that they end when they are idle. The head of `growth.rs` says
//! when they start.

use std::any::Any;
use std::cell::Cell;
use std::io;
use std::mem;
use std::ptr;
use std::thread::{self, JoinHandle, Thread};

use super::job_queue::{JobQueue, WorkerThread};
use crate::error::BuildError;
use crate::sync::{Arc, Mutex, lock};
use crate::system::ThreadStatus;

pub(crate) struct Pool {
    queue: JobQueue,
    /// Prefix of the threads' names.
    name: String,
    on_panic: Arc<dyn Fn(Box<dyn Any + Send>) + Send + Sync>,
    /// The threads, and the number of the next extra one.
    threads: Mutex<(Vec<JoinHandle<()>>, u64)>,
}

// A panic cannot leave a pool half changed: nothing foreign runs under its locks, and `on_panic` changes nothing in it.
impl std::panic::RefUnwindSafe for Pool {}

thread_local! {
    /// The pool to which this thread belongs, from its start to its end.
    static POOL: Cell<*const Pool> = const { Cell::new(ptr::null()) };
}

impl Pool {
    /// Starts the threads. The calling thread must not be pinned, because they inherit its cores. `on_panic` receives the
    /// payloads of panics in work that callbacks have given to rayon, and must not panic.
    pub(crate) fn start(
        threads: usize,
        max_extra: usize,
        name: &str,
        on_panic: impl Fn(Box<dyn Any + Send>) + Send + Sync + 'static,
    ) -> Result<Arc<Self>, BuildError> {
        if threads == 0 {
            return Err(BuildError::NoPoolThreads);
        }
        // The pool grows only where the system tells which threads are asleep.
        let max_extra = if ThreadStatus::of_this_thread().is_some() { max_extra } else { 0 };
        let (queue, on_panic) = (JobQueue::new(max_extra), Arc::new(on_panic));
        let mut list = Vec::new();
        list.try_reserve_exact(threads).map_err(|refused| BuildError::OutOfMemory(refused.into()))?;
        let pool = Arc::new(Self { queue, name: name.to_owned(), on_panic, threads: Mutex::new((list, 0)) });
        for index in 0..threads {
            let thread = pool.start_thread(format!("{name}-pool-{index}"), false).inspect_err(|_| pool.stop());
            lock(&pool.threads).0.push(thread.map_err(BuildError::ThreadStart)?);
        }
        Ok(pool)
    }

    /// Starts extra threads. Returns how many the system has started. The calling thread must not be pinned, because
    /// they inherit its cores.
    pub(super) fn start_extras(self: &Arc<Self>, count: usize) -> usize {
        let (threads, next) = &mut *lock(&self.threads);
        // At most the destructors of thread-local values still run there. The system keeps a stack for each handle.
        threads.retain(|thread| !thread.is_finished());
        let started = (0..count).map_while(|_| {
            let name = format!("{}-extra-{next}", self.name);
            *next += 1;
            self.start_thread(name, true).ok()
        });
        let before = threads.len();
        threads.extend(started);
        threads.len() - before
    }

    fn start_thread(self: &Arc<Self>, name: String, is_extra: bool) -> io::Result<JoinHandle<()>> {
        let mut main = None;
        let on_panic = self.on_panic.clone();
        let rayon = rayon::ThreadPoolBuilder::new()
            .num_threads(1)
            .panic_handler(move |payload| on_panic(payload))
            .spawn_handler(|thread| {
                main = Some(thread);
                Ok(())
            })
            .build();
        let rayon = rayon.map_err(io::Error::other)?;
        let pool = self.clone();
        let thread = spawn(name, move || {
            // No other pool has the same address while the thread keeps this one.
            POOL.set(Arc::as_ptr(&pool));
            if let Some(main) = main {
                main.run();
            }
        })?;
        let pool = self.clone();
        rayon.spawn(move || pool.queue.work(&thread::current(), is_extra));
        Ok(thread)
    }

    pub(crate) fn queue(&self) -> &JobQueue {
        &self.queue
    }

    /// Returns whether the calling thread belongs to the pool.
    pub(crate) fn has_this_thread(&self) -> bool {
        ptr::eq(POOL.get(), self)
    }

    /// Closes the queue, whose threads end once no work is left, and waits for them. No thread may start extra ones any
    /// more, and the calling one must not belong to the pool.
    pub(crate) fn stop(&self) {
        self.queue.close();
        let threads = mem::take(&mut lock(&self.threads).0);
        threads.into_iter().for_each(join);
    }
}

/// The calling thread: the only one of a rayon pool.
impl WorkerThread for Thread {
    fn after_callback(&self) {
        // Of broadcasts, only `yield_local` knows, which takes some 80 instructions.
        if rayon_core::current_thread_has_pending_tasks() == Some(true) {
            run_tasks();
        }
    }

    fn after_batch(&self) {
        run_tasks();
    }

    fn sample() -> impl Fn() -> Option<u64> + Send + Sync + 'static {
        let status = ThreadStatus::of_this_thread();
        move || status.and_then(ThreadStatus::sample)
    }
}

/// Runs all work in rayon's queues of this thread.
#[inline(never)]
fn run_tasks() {
    while rayon::yield_local() == Some(rayon::Yield::Executed) {}
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
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    /// For tests of other rooms.
    impl Pool {
        pub(crate) fn without_threads() -> Arc<Self> {
            let queue = JobQueue::new(0);
            Arc::new(Self { queue, name: String::new(), on_panic: Arc::new(drop), threads: Mutex::default() })
        }
    }

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

    #[test]
    fn a_stop_waits_for_threads_that_are_about_to_end() {
        let pool = Pool::start(1, 1, "pool-stop", drop).unwrap();
        let ended = Arc::new(AtomicUsize::new(0));
        let ends = ended.clone();
        let linger = move || {
            thread::sleep(Duration::from_millis(50));
            ends.fetch_add(1, Ordering::SeqCst);
        };
        lock(&pool.threads).0.push(spawn("lingers".to_owned(), linger).unwrap());
        pool.stop();
        assert_eq!(ended.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn threads_that_have_ended_are_forgotten_when_another_one_starts() {
        let pool = Pool::start(1, 1, "pool-forget", drop).unwrap();
        let ended = spawn("ends".to_owned(), || ()).unwrap();
        while !ended.is_finished() {
            thread::yield_now();
        }
        lock(&pool.threads).0.push(ended);
        pool.queue.expect_extra();
        assert_eq!(pool.start_extras(1), 1);
        assert_eq!(lock(&pool.threads).0.len(), 2);
        pool.stop();
    }
}
