//! A timer's own rayon pool, whose threads are known and can be waited for.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crate::error::BuildError;

pub(crate) struct Pool {
    pool: Arc<rayon::ThreadPool>,
    threads: Vec<JoinHandle<()>>,
}

impl Pool {
    /// Starts the threads. To be called on a thread that is not pinned, as they inherit its cores.
    pub(crate) fn start(threads: usize, name: &str) -> Result<Self, BuildError> {
        if threads == 0 {
            return Err(BuildError::NoPoolThreads);
        }
        let mut started = Vec::new();
        let mut failure = None;
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
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
            Ok(pool) => Ok(Self { pool: Arc::new(pool), threads: started }),
            Err(error) => {
                // The threads that did start see that their pool is gone, and end.
                started.into_iter().for_each(join);
                let cause = failure.unwrap_or_else(|| io::Error::other(error));
                Err(BuildError::ThreadStart(cause))
            }
        }
    }

    pub(crate) fn pool(&self) -> &Arc<rayon::ThreadPool> {
        &self.pool
    }

    /// Whether the calling thread is one of the pool's.
    pub(crate) fn is_on_this_thread(&self) -> bool {
        let this = thread::current().id();
        self.threads.iter().any(|thread| thread.thread().id() == this)
    }

    /// Lets the threads end when they have run what they were given, and with `wait` returns when they have. Nobody
    /// else may have the pool then.
    pub(crate) fn stop(self, wait: bool) {
        drop(self.pool);
        if wait {
            self.threads.into_iter().for_each(join);
        }
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
