//! The textbook timer: a binary heap under a mutex, and a thread that waits at a condition variable for the earliest
//! deadline.
//!
//! Cancelling is lazy: it marks the timer and takes no lock. A thread that schedules removes the items of ended timers
//! when the heap has doubled since the last sweep.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, RecordedCell};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::timers::Timers;

/// A heap smaller than this is not worth a sweep.
const SMALL: usize = 1024;

pub struct HeapTimer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    heap: Mutex<Heap>,
    earlier: Condvar,
}

/// A timer. It fills a cache line, as if its callback took the rest.
#[repr(align(64))]
pub struct Entry {
    pending: AtomicBool,
}

/// Two items share a cache line.
#[repr(align(32))]
struct Item {
    deadline: Instant,
    entry: Arc<Entry>,
}

/// A binary heap. The items are cells, so that every access to one is recorded.
struct Heap {
    items: Vec<RecordedCell<Item>>,
    swept_len: usize,
    closed: bool,
}

impl Entry {
    fn is_pending(&self) -> bool {
        self.pending.load(Ordering::Acquire)
    }

    /// Ends the timer. Returns whether it was pending.
    fn end(&self) -> bool {
        self.pending.swap(false, Ordering::AcqRel)
    }
}

impl HeapTimer {
    pub fn start() -> Self {
        let heap = Heap { items: Vec::new(), swept_len: SMALL, closed: false };
        let shared = Arc::new(Shared { heap: Mutex::new(heap), earlier: Condvar::new() });
        let driven = shared.clone();
        Self { shared, thread: Some(thread::spawn(move || driven.drive())) }
    }
}

impl Timers for HeapTimer {
    type Handle = Arc<Entry>;

    fn schedule(&self, delay: Duration) -> Arc<Entry> {
        let entry = Arc::new(Entry { pending: AtomicBool::new(true) });
        self.shared.push(Instant::now() + delay, entry.clone());
        entry
    }

    fn cancel(&self, entry: Arc<Entry>) -> bool {
        entry.end()
    }

    fn reset(&self, entry: &mut Arc<Entry>, delay: Duration) {
        let new = self.schedule(delay);
        self.cancel(std::mem::replace(entry, new));
    }
}

impl Drop for HeapTimer {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.earlier.notify_one();
        self.thread.take().map(JoinHandle::join).expect("dropped once").expect("the thread does not panic");
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Heap> {
        self.heap.lock().expect("no thread panics while it has the lock")
    }

    fn push(&self, deadline: Instant, entry: Arc<Entry>) {
        let mut heap = self.lock();
        if heap.items.len() >= 2 * heap.swept_len {
            heap.sweep();
        }
        let is_first = heap.push(Item { deadline, entry });
        drop(heap);
        if is_first {
            self.earlier.notify_one();
        }
    }

    fn drive(&self) {
        let mut heap = self.lock();
        while !heap.closed {
            let now = Instant::now();
            heap = match heap.first() {
                None => self.earlier.wait(heap).expect("no thread panics while it has the lock"),
                Some(first) if first > now => {
                    self.earlier.wait_timeout(heap, first - now).expect("no thread panics while it has the lock").0
                }
                Some(_) => {
                    let item = heap.pop();
                    drop(heap);
                    // The callback would run here.
                    item.entry.end();
                    drop(item);
                    self.lock()
                }
            };
        }
    }
}

impl Heap {
    fn deadline(&self, index: usize) -> Instant {
        // SAFETY: we own the heap, because it is behind the lock.
        self.items[index].with(|item| unsafe { (*item).deadline })
    }

    fn first(&self) -> Option<Instant> {
        (!self.items.is_empty()).then(|| self.deadline(0))
    }

    /// Adds an item. Returns whether it is the first now.
    fn push(&mut self, item: Item) -> bool {
        self.items.push(RecordedCell::new(item));
        let last = self.items.len() - 1;
        self.items[last].with_mut(|_| ());
        self.sift_up(last) == 0
    }

    fn pop(&mut self) -> Item {
        let last = self.items.len() - 1;
        self.swap(0, last);
        let item = self.items.pop().expect("the heap is not empty");
        self.sift_down(0);
        item.into_inner()
    }

    fn sift_up(&mut self, mut index: usize) -> usize {
        while index > 0 && self.deadline(index) < self.deadline((index - 1) / 2) {
            self.swap(index, (index - 1) / 2);
            index = (index - 1) / 2;
        }
        index
    }

    fn sift_down(&mut self, mut index: usize) {
        loop {
            let children = (2 * index + 1)..(2 * index + 3).min(self.items.len());
            let Some(child) = children.min_by_key(|&child| self.deadline(child)) else { return };
            if self.deadline(index) <= self.deadline(child) {
                return;
            }
            self.swap(index, child);
            index = child;
        }
    }

    fn swap(&mut self, one: usize, other: usize) {
        if one != other {
            self.items[one].with_mut(|_| ());
            self.items[other].with_mut(|_| ());
            self.items.swap(one, other);
        }
    }

    /// Removes the items of timers that have ended.
    fn sweep(&mut self) {
        // SAFETY: as above.
        let is_live = |item: &RecordedCell<Item>| item.with(|item| unsafe { &(*item).entry }.is_pending());
        self.items.retain(is_live);
        (0..self.items.len() / 2).rev().for_each(|index| self.sift_down(index));
        self.swept_len = self.items.len().max(SMALL);
    }
}
