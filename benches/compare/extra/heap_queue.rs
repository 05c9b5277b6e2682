//! The textbook queue: a binary heap under a mutex, and a consumer that waits at a condition variable for the earliest
//! deadline.
//!
//! - A map has the values, each with its deadline. A removal takes the value out of the map, and a reset changes the
//!   deadline there. Both leave the heap's item behind, which is dead.
//! - Dead items stay until they are the first, or until a sweep: a call that leaves more dead items than live ones in the
//!   heap removes all of them.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::task::{Wake, Waker};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::beside::Beside;
use crate::contender::Contender;
use crate::contender::heap::HeapTimer;

/// A heap smaller than this is not worth a sweep.
const SMALL: usize = 64;

pub struct HeapQueue {
    shared: Arc<Shared>,
    consumer: Option<JoinHandle<()>>,
    /// For callbacks: a queue has none.
    timer: HeapTimer,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    earlier: Condvar,
}

#[derive(Default)]
struct Queue {
    heap: BinaryHeap<Reverse<(Instant, u64)>>,
    values: HashMap<u64, (Instant, Waker)>,
    /// The number of the last value.
    last: u64,
    closed: bool,
}

impl Contender for HeapQueue {
    const NAME: &'static str = "heap-queue";
    type Handle = u64;

    fn start() -> Self {
        let shared = Arc::new(Shared::default());
        let values = shared.clone();
        let consume = move || {
            while let Some(value) = values.pop() {
                value.wake();
            }
        };
        Self { shared, consumer: Some(thread::spawn(consume)), timer: HeapTimer::start() }
    }

    fn schedule(&self, delay: Duration, target: Arc<impl Wake + Send + Sync + 'static>) -> u64 {
        let deadline = Instant::now() + delay;
        let mut queue = self.shared.lock();
        queue.last += 1;
        let number = queue.last;
        queue.values.insert(number, (deadline, Waker::from(target)));
        self.shared.push(queue, deadline, number);
        number
    }

    fn cancel(&self, number: u64) -> Option<bool> {
        let mut queue = self.shared.lock();
        let removed = queue.values.remove(&number);
        queue.sweep();
        // The drop of the value is foreign code.
        drop(queue);
        Some(removed.is_some())
    }

    fn rearm(&self, number: &mut u64, delay: Duration, _: &Arc<impl Wake + Send + Sync + 'static>) -> Option<bool> {
        let new = Instant::now() + delay;
        let mut queue = self.shared.lock();
        let Some((deadline, _)) = queue.values.get_mut(number) else { return Some(false) };
        *deadline = new;
        queue.sweep();
        self.shared.push(queue, new, *number);
        Some(true)
    }
}

impl Beside for HeapQueue {
    fn call_back(&self, delay: Duration, target: Arc<impl Wake + Send + Sync + 'static>) -> bool {
        self.timer.schedule(delay, target);
        true
    }
}

impl Drop for HeapQueue {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.earlier.notify_one();
        self.consumer.take().map(JoinHandle::join).expect("it is joined once").expect("the consumer ends");
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap()
    }

    /// Pushes an item, and wakes the consumer if it is the first.
    fn push(&self, mut queue: MutexGuard<'_, Queue>, deadline: Instant, number: u64) {
        let is_earliest = queue.heap.peek().is_none_or(|Reverse((first, _))| deadline < *first);
        queue.heap.push(Reverse((deadline, number)));
        drop(queue);
        if is_earliest {
            self.earlier.notify_one();
        }
    }

    /// Waits for the first value that is due; returns `None` after the end.
    fn pop(&self) -> Option<Waker> {
        let mut queue = self.lock();
        while !queue.closed {
            let Some(&Reverse((deadline, number))) = queue.heap.peek() else {
                queue = self.earlier.wait(queue).unwrap();
                continue;
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if !queue.is_live(deadline, number) {
                queue.heap.pop();
            } else if left.is_zero() {
                queue.heap.pop();
                return queue.values.remove(&number).map(|(_, value)| value);
            } else {
                queue = self.earlier.wait_timeout(queue, left).unwrap().0;
            }
        }
        None
    }
}

impl Queue {
    fn is_live(&self, deadline: Instant, number: u64) -> bool {
        self.values.get(&number).is_some_and(|(last, _)| *last == deadline)
    }

    /// Removes the dead items if they are most of the heap.
    fn sweep(&mut self) {
        if self.heap.len() > SMALL.max(2 * self.values.len()) {
            let mut heap = mem::take(&mut self.heap);
            heap.retain(|Reverse((deadline, number))| self.is_live(*deadline, *number));
            self.heap = heap;
        }
    }
}
