//! A B-tree under a mutex, and one thread that waits at a condition variable for the earliest deadline.
//!
//! A cancel removes the timer from the tree at once. A reset removes it and inserts it again.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::task::Wake;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::interface::{Contender, join};

/// Maximum number of timers that the thread removes from the tree at once.
const BATCH: usize = 256;

pub struct BTreeTimer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    earlier: Condvar,
}

#[derive(Default)]
struct Queue {
    tree: BTreeMap<Key, Callback>,
    /// The number of the last timer.
    last: u64,
    closed: bool,
}

/// A deadline, and a number that is unique to the timer.
type Key = (Instant, u64);
type Callback = Box<dyn FnOnce() + Send>;

impl Contender for BTreeTimer {
    const NAME: &'static str = "b-tree";
    type Handle = Key;

    fn start() -> Self {
        let shared = Arc::<Shared>::default();
        let driven = shared.clone();
        let thread = thread::spawn(move || driven.drive());
        Self { shared, thread: Some(thread) }
    }

    fn schedule(&self, delay: Duration, target: Arc<impl Wake + Send + Sync + 'static>) -> Key {
        let deadline = Instant::now() + delay;
        let callback = Box::new(move || target.wake());
        self.shared.insert(self.shared.lock(), deadline, callback)
    }

    fn cancel(&self, key: Key) -> Option<bool> {
        let callback = self.shared.lock().tree.remove(&key);
        Some(callback.is_some())
    }

    fn rearm(&self, key: &mut Key, delay: Duration, _: &Arc<impl Wake + Send + Sync + 'static>) -> Option<bool> {
        let deadline = Instant::now() + delay;
        let mut queue = self.shared.lock();
        let callback = queue.tree.remove(key);
        let was_pending = callback.is_some();
        if let Some(callback) = callback {
            *key = self.shared.insert(queue, deadline, callback);
        }
        Some(was_pending)
    }
}

impl Drop for BTreeTimer {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.earlier.notify_one();
        join(&mut self.thread);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap()
    }

    fn insert(&self, mut queue: MutexGuard<'_, Queue>, deadline: Instant, callback: Callback) -> Key {
        queue.last += 1;
        let key = (deadline, queue.last);
        let is_earliest = queue.tree.first_key_value().is_none_or(|(first, _)| key < *first);
        queue.tree.insert(key, callback);
        drop(queue);
        if is_earliest {
            self.earlier.notify_one();
        }
        key
    }

    fn drive(&self) {
        let mut due = Vec::with_capacity(BATCH);
        let mut queue = self.lock();
        while !queue.closed {
            let now = Instant::now();
            while let Some(first) = queue.tree.first_entry().filter(|first| due.len() < BATCH && first.key().0 <= now) {
                due.push(first.remove());
            }
            if !due.is_empty() {
                drop(queue);
                due.drain(..).for_each(|callback| callback());
                queue = self.lock();
                continue;
            }
            let rest = queue.tree.first_key_value().map(|((deadline, _), _)| *deadline - now);
            queue = match rest {
                Some(rest) => self.earlier.wait_timeout(queue, rest).unwrap().0,
                None => self.earlier.wait(queue).unwrap(),
            };
        }
    }
}
