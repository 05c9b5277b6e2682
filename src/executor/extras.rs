//! The threads of a pool's extra workers. The head of `job_queue/growth.rs` says when they start.
//!
//! rayon cannot add a thread to a pool, so each extra worker has a rayon pool of its own, with a *companion*: a second
//! thread, which only does rayon's work. So a callback may wait for what it has `spawn`ed, as on a pool's own thread.

use std::collections::HashMap;
use std::mem;
use std::thread::JoinHandle;

use super::job_queue::JobQueue;
use super::workers::{Panicked, Workers, belong_to, join, serve};
use crate::sync::{Arc, Mutex, lock};

/// The extra threads of a pool.
pub(crate) struct Extras {
    queue: Arc<JobQueue>,
    /// Prefix of the threads' names.
    name: String,
    panicked: Panicked,
    threads: Mutex<Threads>,
}

#[derive(Default)]
struct Threads {
    /// The number of the next extra worker.
    next: u64,
    /// The extra workers, by their number.
    serving: HashMap<u64, Workers>,
    /// Threads that were idle for too long, and are about to end.
    ending: Vec<JoinHandle<()>>,
}

impl Threads {
    /// Takes the handles of threads of which at most the destructors of thread-local values still run. The system keeps
    /// their stacks until they are joined.
    fn take_ended(&mut self) -> Vec<JoinHandle<()>> {
        let (ended, ending) = mem::take(&mut self.ending).into_iter().partition(JoinHandle::is_finished);
        self.ending = ending;
        ended
    }
}

impl Extras {
    pub(super) fn new(queue: &Arc<JobQueue>, name: &str, panicked: Panicked) -> Self {
        Self { queue: queue.clone(), name: name.to_owned(), panicked, threads: Mutex::default() }
    }

    /// Starts extra workers. Returns how many the system has started. The calling thread must not be pinned, because
    /// they inherit its cores.
    pub(super) fn start(self: &Arc<Self>, count: usize) -> usize {
        (0..count).take_while(|_| self.start_one()).count()
    }

    fn start_one(self: &Arc<Self>) -> bool {
        // The lock is held until the new thread is in the list: the thread removes itself when it ends.
        let mut threads = lock(&self.threads);
        let number = threads.next;
        threads.next += 1;
        let extras = self.clone();
        // The companion is the first thread: if the second is not started, rayon ends the first.
        let serve_until_idle = move |index| {
            if index == 0 {
                belong_to(&extras.queue);
                let ended = lock(&extras.threads).take_ended();
                return ended.into_iter().for_each(join);
            }
            serve(&extras.queue, true);
            let mut threads = lock(&extras.threads);
            let this = threads.serving.remove(&number);
            threads.ending.extend(this.into_iter().flat_map(Workers::end));
        };
        let name = |index| format!("{}-{}-{number}", self.name, ["companion", "extra"][index]);
        match Workers::start(2, name, serve_until_idle, self.panicked.clone()) {
            Ok(workers) => threads.serving.insert(number, workers).is_none(),
            Err((_, companion)) => {
                let ended = threads.take_ended();
                drop(threads);
                // The companion ends at once. The next look may try again.
                companion.into_iter().chain(ended).for_each(join);
                false
            }
        }
    }

    /// Waits for the end of all threads, of which the calling one must be none. The queue must be closed, and no thread
    /// may start extra workers any more.
    pub(super) fn join(&self) {
        let Threads { serving, ending, .. } = mem::take(&mut *lock(&self.threads));
        let serving: Vec<_> = serving.into_values().flat_map(Workers::end).collect();
        serving.into_iter().chain(ending).for_each(join);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use std::time::Duration;

    use super::super::workers::spawn;
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
        lock(&extras.threads).ending.push(lingering());
        assert!(lock(&extras.threads).take_ended().is_empty(), "it lingers");
        extras.join();
        assert_eq!(ended.load(Ordering::SeqCst), 1);
        let ends = ended.clone();
        let serve = move |_| {
            thread::sleep(Duration::from_millis(50));
            ends.fetch_add(1, Ordering::SeqCst);
        };
        let serving = Workers::start(1, |_| "serves".to_owned(), serve, Arc::new(drop)).ok().unwrap();
        lock(&extras.threads).serving.insert(0, serving);
        extras.join();
        assert_eq!(ended.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn threads_that_have_ended_are_joined_when_another_one_starts() {
        let queue = Arc::new(JobQueue::new(1, 1));
        let extras = Arc::new(Extras::new(&queue, "extras-forget", Arc::new(drop)));
        let eventually = |is_so: &dyn Fn() -> bool| {
            for _ in 0..2000 {
                if is_so() {
                    return;
                }
                thread::sleep(Duration::from_millis(10));
            }
            panic!("not within 20 s");
        };
        let ended = spawn("ends".to_owned(), || ()).unwrap();
        eventually(&|| ended.is_finished());
        lock(&extras.threads).ending.push(ended);
        queue.expect_extra();
        assert_eq!(extras.start(1), 1);
        eventually(&|| lock(&extras.threads).ending.is_empty());
        queue.close();
        extras.join();
    }
}
