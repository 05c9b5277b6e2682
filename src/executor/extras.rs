//! The threads of a pool's extra workers, and the monitor that starts them. The head of `job_queue/growth.rs` says
//! when.

use std::collections::HashMap;
use std::mem;
use std::thread::JoinHandle;

use super::job_queue::{JobQueue, MonitorThread, TimedWait};
use super::workers::{Panicked, Workers, join, serve, spawn};
use crate::sync::{Arc, Mutex, lock};

/// The monitor of a queue, and the threads that it starts.
pub(crate) struct Extras {
    queue: Arc<JobQueue>,
    /// Prefix of the threads' names.
    name: String,
    panicked: Panicked,
    threads: Mutex<Threads>,
}

#[derive(Default)]
struct Threads {
    /// `None` before the first alert.
    monitor: Option<JoinHandle<()>>,
    /// The number of the next extra worker.
    next: u64,
    /// The extra workers, by their number.
    serving: HashMap<u64, Workers>,
    /// The last extra worker that was idle for too long. It has ended, or is about to end.
    ended: Vec<JoinHandle<()>>,
}

impl Extras {
    pub(super) fn new(queue: &Arc<JobQueue>, name: &str, panicked: Panicked) -> Self {
        Self { queue: queue.clone(), name: name.to_owned(), panicked, threads: Mutex::default() }
    }

    /// Starts the monitor, unless there is one. If the system refuses, the next call tries again. The calling thread
    /// must not be pinned, because all these threads inherit its cores.
    pub(super) fn start_monitor(self: &Arc<Self>) {
        let mut threads = lock(&self.threads);
        if threads.monitor.is_none() {
            let this = self.clone();
            let monitor = move || this.queue.monitor_loop(&Monitor(&this));
            threads.monitor = spawn(format!("{}-monitor", self.name), monitor).ok();
        }
    }

    /// Waits for the end of all threads. The queue must be closed, and no thread may start the monitor any more.
    pub(super) fn join(&self) {
        let monitor = lock(&self.threads).monitor.take();
        monitor.into_iter().for_each(join);
        let Threads { serving, ended, .. } = mem::take(&mut *lock(&self.threads));
        let serving = serving.into_values().flat_map(Workers::end);
        ended.into_iter().chain(serving).for_each(join);
    }
}

/// The calling thread, as the monitor.
struct Monitor<'a>(&'a Arc<Extras>);

impl TimedWait for Monitor<'_> {}

impl MonitorThread for Monitor<'_> {
    fn start_extra(&self) -> bool {
        // The lock is held until the new thread is in the list: the thread removes itself when it ends.
        let mut threads = lock(&self.0.threads);
        let number = threads.next;
        threads.next += 1;
        let extras = self.0.clone();
        let serve_until_idle = move || {
            serve(&extras.queue, true);
            let mut threads = lock(&extras.threads);
            let this: Vec<_> = threads.serving.remove(&number).into_iter().flat_map(Workers::end).collect();
            // The system keeps the stack of a thread until another thread has joined it. So each thread that ends joins
            // the one that ended before it.
            let previous = mem::replace(&mut threads.ended, this);
            drop(threads);
            previous.into_iter().for_each(join);
        };
        let name = |_| format!("{}-extra-{number}", self.0.name);
        match Workers::start(1, name, serve_until_idle, self.0.panicked.clone()) {
            Ok(workers) => threads.serving.insert(number, workers).is_none(),
            // The only thread was not started, so there is none to join.
            Err(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn all_threads_have_ended_when_they_are_joined() {
        let extras = Extras::new(&Arc::new(JobQueue::new(1, 1)), "extras-join", Arc::new(drop));
        let ended = Arc::new(AtomicUsize::new(0));
        let lingering = || {
            let ended = ended.clone();
            let linger = move || {
                thread::sleep(Duration::from_millis(50));
                ended.fetch_add(1, Ordering::SeqCst);
            };
            spawn("lingers".to_owned(), linger).unwrap()
        };
        lock(&extras.threads).monitor = Some(lingering());
        extras.join();
        assert_eq!(ended.load(Ordering::SeqCst), 1, "the monitor");
        lock(&extras.threads).ended.push(lingering());
        extras.join();
        assert_eq!(ended.load(Ordering::SeqCst), 2, "one that was idle for too long");
    }
}
