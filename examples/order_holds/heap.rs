//! A binary heap under a mutex whose cancel only marks an item.

use std::cmp::Ordering as Order;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::holds::{Holds, Time};

/// The release callback, shared by the hold and the heap; `None` once the hold has ended.
type Release = Mutex<Option<Box<dyn FnOnce() + Send>>>;

pub struct Heap {
    time: Time,
    items: Mutex<BinaryHeap<Item>>,
    /// Number of items in the heap, readable without the lock.
    len: AtomicUsize,
    /// Number of items whose hold has been confirmed.
    dead: AtomicUsize,
}

struct Item {
    deadline: Instant,
    release: Arc<Release>,
}

impl Heap {
    pub fn new(time: Time) -> Self {
        Self { time, items: Mutex::default(), len: AtomicUsize::new(0), dead: AtomicUsize::new(0) }
    }

    fn is_mostly_dead(&self) -> bool {
        self.dead.load(Ordering::Relaxed) > self.len.load(Ordering::Relaxed) / 2
    }

    /// Removes all items whose hold has been confirmed.
    fn sweep(&self) {
        let mut items = lock(&self.items);
        // Another thread may have swept before.
        if self.is_mostly_dead() {
            let before = items.len();
            items.retain(|item| lock(&item.release).is_some());
            self.dead.fetch_sub(before - items.len(), Ordering::Relaxed);
            self.len.store(items.len(), Ordering::Relaxed);
        }
    }

    /// Removes and returns the first item if it is due.
    fn pop(&self, now: Instant) -> Option<Item> {
        let mut items = lock(&self.items);
        let due = items.peek().is_some_and(|first| first.deadline <= now);
        let item = if due { items.pop() } else { None };
        self.len.store(items.len(), Ordering::Relaxed);
        item
    }
}

impl Holds for Heap {
    type Hold = Arc<Release>;

    fn hold(&self, time: Duration, release: impl FnOnce() + Send + 'static) -> Arc<Release> {
        let release: Arc<Release> = Arc::new(Mutex::new(Some(Box::new(release))));
        let item = Item { deadline: self.now() + time, release: release.clone() };
        let mut items = lock(&self.items);
        items.push(item);
        self.len.store(items.len(), Ordering::Relaxed);
        release
    }

    fn confirm(&self, hold: Arc<Release>) -> bool {
        let was_held = lock(&hold).take().is_some();
        if was_held {
            self.dead.fetch_add(1, Ordering::Relaxed);
            if self.is_mostly_dead() {
                self.sweep();
            }
        }
        was_held
    }

    fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed) - self.dead.load(Ordering::Relaxed)
    }

    fn now(&self) -> Instant {
        self.time.now()
    }

    fn wait_until(&self, to: Instant) {
        loop {
            let next = lock(&self.items).peek().map_or(to, |first| first.deadline.min(to));
            self.time.wait_until(next);
            while let Some(item) = self.pop(self.now()) {
                let release = lock(&item.release).take();
                match release {
                    Some(release) => release(),
                    None => _ = self.dead.fetch_sub(1, Ordering::Relaxed),
                }
            }
            if next == to {
                return;
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no thread panics while it has the lock")
}

impl Ord for Item {
    /// Orders the earliest deadline as the greatest, because [`BinaryHeap`] pops the greatest item first.
    fn cmp(&self, other: &Self) -> Order {
        other.deadline.cmp(&self.deadline)
    }
}

impl PartialOrd for Item {
    fn partial_cmp(&self, other: &Self) -> Option<Order> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Item {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Item {}
