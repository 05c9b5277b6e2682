//! The extra threads of a pool, and the monitor that starts them.

use std::collections::HashMap;
use std::mem;
use std::thread::JoinHandle;

use super::job_queue::{JobQueue, MonitorThread, Waits};
use super::pool::{Workers, join, serve, spawn};
use crate::sync::{Arc, Mutex, MutexGuard};

/// The monitor of a queue, and the threads that it starts.
pub(crate) struct Extras {
    queue: Arc<JobQueue>,
    /// What the names of the threads begin with.
    name: String,
    started: Mutex<Started>,
}

#[derive(Default)]
struct Started {
    /// There is none before the first alert.
    monitor: Option<JoinHandle<()>>,
    /// The number of the next extra thread.
    next: u64,
    /// Those that serve the queue.
    serving: HashMap<u64, Workers>,
    /// The last of those that were idle for long, which has ended or is about to.
    ended: Vec<JoinHandle<()>>,
}

impl Extras {
    pub(super) fn new(queue: &Arc<JobQueue>, name: &str) -> Self {
        Self { queue: queue.clone(), name: name.to_owned(), started: Mutex::default() }
    }

    /// Starts the monitor, unless there is one. If the system refuses, the next call tries again. To be called on a thread
    /// that is not pinned, as all these threads inherit its cores.
    pub(super) fn start_monitor(self: &Arc<Self>) {
        let mut started = self.lock();
        if started.monitor.is_none() {
            let this = self.clone();
            let monitor = move || this.queue.monitor_loop(&Monitor(&this));
            started.monitor = spawn(format!("{}-monitor", self.name), monitor).ok();
        }
    }

    /// Waits for the end of all threads. The queue must be closed, and nobody may start the monitor any more.
    pub(super) fn join(&self) {
        let monitor = self.lock().monitor.take();
        monitor.into_iter().for_each(join);
        let Started { serving, ended, .. } = mem::take(&mut *self.lock());
        let serving = serving.into_values().flat_map(Workers::end);
        ended.into_iter().chain(serving).for_each(join);
    }

    fn lock(&self) -> MutexGuard<'_, Started> {
        self.started.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// The calling thread.
struct Monitor<'a>(&'a Arc<Extras>);

impl Waits for Monitor<'_> {}

impl MonitorThread for Monitor<'_> {
    fn start_extra(&self) -> bool {
        // Held until the new thread is in the list, where it looks for itself when it ends.
        let mut started = self.0.lock();
        let number = started.next;
        started.next += 1;
        let extras = self.0.clone();
        let serve_until_idle = move || {
            serve(&extras.queue, true);
            let mut started = extras.lock();
            let this: Vec<_> = started.serving.remove(&number).into_iter().flat_map(Workers::end).collect();
            // The system keeps the stack of a thread that nobody has waited for.
            let before = mem::replace(&mut started.ended, this);
            drop(started);
            before.into_iter().for_each(join);
        };
        match Workers::start(1, |_| format!("{}-extra-{number}", self.0.name), serve_until_idle) {
            Ok(workers) => started.serving.insert(number, workers).is_none(),
            // Without the one thread there is none to wait for.
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
        let extras = Extras::new(&Arc::new(JobQueue::new(1, 1)), "extras-join");
        let ended = Arc::new(AtomicUsize::new(0));
        let lingering = || {
            let ended = ended.clone();
            let linger = move || {
                thread::sleep(Duration::from_millis(50));
                ended.fetch_add(1, Ordering::SeqCst);
            };
            spawn("lingers".to_owned(), linger).unwrap()
        };
        extras.lock().monitor = Some(lingering());
        extras.join();
        assert_eq!(ended.load(Ordering::SeqCst), 1, "the monitor");
        extras.lock().ended.push(lingering());
        extras.join();
        assert_eq!(ended.load(Ordering::SeqCst), 2, "one that was idle for long");
    }
}
