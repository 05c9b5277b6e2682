//! The textbook timer: a binary heap under a mutex, and one thread that waits at a condition variable for the earliest
//! deadline.
//!
//! - Only a timer that is earlier than all others wakes the thread. The thread pops a batch of expired timers at a
//!   time, and calls back outside the lock.
//! - A timer is one allocation, shared by its handle and the heap, and one item of the heap.
//! - Cancelling is lazy: it marks the timer, without the lock. The item and the closure stay until their deadline, or
//!   until a sweep. A sweep removes dead items when they are more than half of the heap.
//! - A reset leaves the old item behind in the same way, and pushes a new one for the same closure.

use std::cmp::Ordering as Order;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::task::Wake;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::interface::{Contender, join};

/// Maximum number of timers that the thread pops at once.
const BATCH: usize = 256;
/// A heap smaller than this is not worth a sweep.
const SMALL: i64 = 64;
/// Value of [`Entry::live`] after the timer has ended.
const ENDED: u64 = 0;

pub struct HeapTimer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    queue: Mutex<Queue>,
    earlier: Condvar,
    /// Number of items in the heap, readable without the lock.
    items: AtomicI64,
    /// Number of dead items. It is briefly too low when an item leaves the heap before `count_dead` has counted it.
    dead: AtomicI64,
    closed: AtomicBool,
}

#[derive(Default)]
struct Queue {
    heap: BinaryHeap<Item>,
    /// The number of the last item.
    last: u64,
}

/// A deadline of a timer. The item is dead if the timer has ended or was reset.
struct Item {
    deadline: Instant,
    number: u64,
    task: Arc<dyn Task>,
}

/// One timer: the number of its live item, and its closure.
struct Entry<F> {
    live: AtomicU64,
    callback: Mutex<Option<F>>,
}

pub trait Task: Send + Sync {
    fn live(&self) -> &AtomicU64;
    fn call(&self);
}

impl<F: FnOnce() + Send> Task for Entry<F> {
    fn live(&self) -> &AtomicU64 {
        &self.live
    }

    fn call(&self) {
        let callback = self.callback.lock().unwrap().take();
        callback.expect("a timer is called once")();
    }
}

impl Contender for HeapTimer {
    const NAME: &'static str = "heap";
    type Handle = Arc<dyn Task>;

    fn start() -> Self {
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            earlier: Condvar::new(),
            items: AtomicI64::new(0),
            dead: AtomicI64::new(0),
            closed: AtomicBool::new(false),
        });
        let driven = shared.clone();
        let thread = thread::spawn(move || driven.drive());
        Self { shared, thread: Some(thread) }
    }

    fn schedule(&self, delay: Duration, target: Arc<impl Wake + Send + Sync + 'static>) -> Arc<dyn Task> {
        let deadline = Instant::now() + delay;
        let entry = Entry { live: AtomicU64::new(ENDED), callback: Mutex::new(Some(move || target.wake())) };
        let task: Arc<dyn Task> = Arc::new(entry);
        let pushed = self.shared.push(deadline, &task, |number| {
            task.live().store(number, Ordering::Release);
            true
        });
        assert!(pushed);
        task
    }

    fn cancel(&self, task: Arc<dyn Task>) -> Option<bool> {
        let was_live = task.live().swap(ENDED, Ordering::AcqRel) != ENDED;
        if was_live {
            self.shared.count_dead();
        }
        Some(was_live)
    }

    fn rearm(
        &self,
        task: &mut Arc<dyn Task>,
        delay: Duration,
        _: &Arc<impl Wake + Send + Sync + 'static>,
    ) -> Option<bool> {
        let deadline = Instant::now() + delay;
        let was_reset = self.shared.push(deadline, task, |number| {
            let replace = |live| (live != ENDED).then_some(number);
            task.live().fetch_update(Ordering::AcqRel, Ordering::Acquire, replace).is_ok()
        });
        if was_reset {
            self.shared.count_dead();
        }
        Some(was_reset)
    }
}

impl Drop for HeapTimer {
    fn drop(&mut self) {
        let queue = self.shared.lock();
        self.shared.closed.store(true, Ordering::Relaxed);
        drop(queue);
        self.shared.earlier.notify_one();
        join(&mut self.thread);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap()
    }

    /// Pushes an item if `claim` accepts its number. Returns whether it did.
    fn push(&self, deadline: Instant, task: &Arc<dyn Task>, claim: impl FnOnce(u64) -> bool) -> bool {
        let mut queue = self.lock();
        let number = queue.last + 1;
        if !claim(number) {
            return false;
        }
        queue.last = number;
        let is_earliest = queue.heap.peek().is_none_or(|first| deadline < first.deadline);
        queue.heap.push(Item { deadline, number, task: task.clone() });
        self.publish_len(&queue);
        drop(queue);
        if is_earliest {
            self.earlier.notify_one();
        }
        true
    }

    /// Counts a dead item, and sweeps if most items are dead.
    fn count_dead(&self) {
        self.dead.fetch_add(1, Ordering::Relaxed);
        if !self.is_mostly_dead() {
            return;
        }
        let mut queue = self.lock();
        // Another thread may have swept before.
        if self.is_mostly_dead() {
            let before = queue.heap.len();
            queue.heap.retain(Item::is_live);
            self.dead.fetch_sub((before - queue.heap.len()) as i64, Ordering::Relaxed);
            self.publish_len(&queue);
        }
    }

    fn is_mostly_dead(&self) -> bool {
        let items = self.items.load(Ordering::Relaxed);
        items > SMALL && self.dead.load(Ordering::Relaxed) > items / 2
    }

    /// Publishes the number of items to threads without the lock.
    fn publish_len(&self, queue: &Queue) {
        self.items.store(queue.heap.len() as i64, Ordering::Relaxed);
    }

    fn drive(&self) {
        let mut due = Vec::with_capacity(BATCH);
        let mut queue = self.lock();
        while !self.closed.load(Ordering::Relaxed) {
            let now = Instant::now();
            while due.len() < BATCH && queue.heap.peek().is_some_and(|first| first.deadline <= now) {
                due.extend(queue.heap.pop());
            }
            if !due.is_empty() {
                self.publish_len(&queue);
                drop(queue);
                due.drain(..).for_each(|item| self.fire(item));
                queue = self.lock();
                continue;
            }
            let rest = queue.heap.peek().map(|first| first.deadline - now);
            queue = match rest {
                Some(rest) => self.earlier.wait_timeout(queue, rest).unwrap().0,
                None => self.earlier.wait(queue).unwrap(),
            };
        }
    }

    fn fire(&self, item: Item) {
        let claimed = item.task.live().compare_exchange(item.number, ENDED, Ordering::AcqRel, Ordering::Acquire);
        match claimed {
            Ok(_) => item.task.call(),
            Err(_) => {
                self.dead.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

impl Item {
    fn is_live(&self) -> bool {
        self.task.live().load(Ordering::Acquire) == self.number
    }
}

impl Ord for Item {
    /// Orders the earliest deadline, and of equal ones the first pushed, as the greatest: [`BinaryHeap`] pops the
    /// greatest.
    fn cmp(&self, other: &Self) -> Order {
        (other.deadline, other.number).cmp(&(self.deadline, self.number))
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
