//! How a value travels from its producer to one consumer.
//!
//! ```text
//!              lock of the members             lock of the line
//! push ──────► list                 driver ──► ready: the values that are due ──► pop
//! remove, pop ► unlist                         waiting: the consumers, in turn
//! ```
//!
//! Two plain locks, each held for the time of some memory accesses, and never while foreign code runs. Producers, and
//! threads that remove a value which is not due, take the first alone; drivers take the second alone. So a driver waits
//! for no producer, does none of its work, and hands over its own values in one piece. No thread holds both locks.
//!
//! Rejected: lock-free lists of what was pushed and removed, which the owner of one lock takes over. To take an item over
//! cost more than to push and remove it. So a driver that had the lock worked for the callers of `push` and `remove`
//! without an end.
//!
//! # No wake-up is lost
//!
//! A consumer looks for a value, and begins to wait, under one hold of the lock. A driver adds values, and chooses
//! consumers for them, under another. The later of the two sees the earlier. Loom model `delay_queue`.
//!
//! # Foreign code comes last
//!
//! The waker of a task is foreign code: it may shut the service down, which waits for callbacks, and a callback may be
//! blocked in `pop`. So no waker may come before a blocked thread, of any queue. The thread that chooses consumers
//! unparks such threads itself, and returns the number of tasks. A driver first hands over to all queues of its turn, and
//! then calls the wakers. So a consumer waits as a task *or* a thread: if the thread were hidden in a waker, the two could
//! not be told apart.
//!
//! # The end
//!
//! A queue is closed by its user, or by the shutdown of its service. It is over when it is closed and no timer of an item
//! can fire any more. A shutdown begins to close all queues before it ends the timers: the end of one calls no waker. One
//! word counts the timers and says whether the queue is closed. The timers of items that become due end under the lock
//! under which the items are added. So a consumer that finds the queue over, under that lock, has found all that was due.

use std::any::Any;
use std::mem;
use std::task::{Poll, Waker};

use super::line::{Consumer, DueItem, Item, Line, TaskOrThread};
use crate::engine::deliveries::{Deliveries, Delivery};
use crate::sync::{Arc, AtomicU64, Mutex, MutexGuard, Ordering, lock};

/// In [`HandOver::timers`]: the timer has been shut down. The other bits count in steps of [`ONE_TIMER`].
const QUEUE_CLOSED: u64 = 1;
const ONE_TIMER: u64 = 2;

/// Capacity that a short list of items keeps.
const RETAINED: usize = 1024;

/// Calls or drops a waker, and lets no panic out.
type Apply = dyn Fn(fn(Waker), Waker) + Send + Sync;

/// The part of a queue that producers, drivers and consumers share.
pub(crate) struct HandOver<T, B> {
    /// Timers of items that have not ended, and whether the queue is closed. Each access is relaxed: the lock of the line
    /// orders what consumers must know of it.
    timers: AtomicU64,
    /// All items in the queue, so that its drop and a drain find them. In no order; each item knows its index.
    members: Mutex<Vec<Arc<Item<T, B>>>>,
    line: Mutex<Line<T, B>>,
    apply: Box<Apply>,
}

impl<T, B> HandOver<T, B> {
    pub(crate) fn new(apply: impl Fn(fn(Waker), Waker) + Send + Sync + 'static) -> Self {
        Self {
            timers: AtomicU64::new(0),
            members: Mutex::new(Vec::new()),
            line: Mutex::new(Line::new()),
            apply: Box::new(apply),
        }
    }

    /// Ends a push, whose timer is scheduled: lists the item, unless its value has come out already. Amortised
    /// constant time.
    pub(crate) fn list(&self, item: Arc<Item<T, B>>) {
        let mut members = lock(&self.members);
        // The thread that takes the value looks for the item under this lock, before or after.
        if !item.is_claimed() {
            let index = u32::try_from(members.len()).expect("fewer than 2^32 values");
            // Relaxed, also in `unlist`: under the lock.
            item.index.store(index, Ordering::Relaxed);
            members.push(item);
        }
    }

    /// Takes the value of an item, unless it has come out before. The caller has ended the timer; `may_be_due`: it found
    /// the timer ended.
    pub(crate) fn remove(&self, item: &Arc<Item<T, B>>, may_be_due: bool) -> Option<T> {
        let value = item.claim()?;
        self.unlist(item);
        if may_be_due {
            lock(&self.line).remove(item);
        }
        Some(value)
    }

    /// Takes the first value that is due. `Ready(None)`: the queue is over. Otherwise has the consumer wait, if it says
    /// what to wake.
    pub(crate) fn poll(&self, consumer: &Consumer, mut wake: Option<TaskOrThread>) -> Poll<Option<(T, DueItem<T, B>)>> {
        let mut line = lock(&self.line);
        let popped = line.pop();
        let is_ready = popped.is_some() || self.is_over();
        let former =
            if is_ready { line.end_wait(consumer) } else { wake.take().and_then(|wake| line.wait(consumer, wake)) };
        drop(line);
        if let Some((_, (item, _))) = &popped {
            self.unlist(item);
        }
        // The drop of a waker is foreign code, so it comes last.
        self.drop_uncalled(former.into_iter().chain(wake));
        if is_ready { Poll::Ready(popped) } else { Poll::Pending }
    }

    /// Ends the wait of a consumer that will not look again. If it was chosen, another is woken in its place.
    pub(crate) fn withdraw(&self, consumer: &Consumer) {
        if consumer.number() != 0 {
            let mut line = lock(&self.line);
            let values = usize::from(line.was_chosen(consumer));
            let former = line.end_wait(consumer);
            self.wake(self.choose(line, values));
            self.drop_uncalled(former);
        }
    }

    /// Takes all items off the list, and returns an iterator that takes their values, due or not, one by one. The caller
    /// ends their timers.
    pub(crate) fn drain(&self) -> impl Iterator<Item = (T, Arc<Item<T, B>>)> {
        let members = mem::take(&mut *lock(&self.members));
        let take = |item: Arc<Item<T, B>>| {
            let value = item.claim()?;
            lock(&self.line).remove(&item);
            Some((value, item))
        };
        members.into_iter().filter_map(take)
    }

    /// Accepts no more values. Once nothing can become due any more, consumers wait no longer. Returns the number of tasks
    /// to be [woken](Self::wake).
    pub(crate) fn close(&self) -> usize {
        self.timers.fetch_or(QUEUE_CLOSED, Ordering::Relaxed);
        self.choose(lock(&self.line), 0)
    }

    /// Begins a close: the queue is not over before [`end_close`](Self::end_close).
    pub(crate) fn begin_close(&self) {
        self.timers.fetch_add(ONE_TIMER, Ordering::Relaxed);
    }

    /// Ends a close that was begun: [closes](Self::close) the queue.
    pub(crate) fn end_close(&self) -> usize {
        self.timers.fetch_sub(ONE_TIMER, Ordering::Relaxed);
        self.close()
    }

    /// Calls the wakers of as many `tasks` that were chosen, the first in turn.
    pub(crate) fn wake(&self, tasks: usize) {
        let next = || lock(&self.line).next_chosen();
        (0..tasks).map_while(|_| next()).for_each(|waker| (self.apply)(Waker::wake, waker));
    }

    /// Returns whether the queue accepts no more values.
    pub(crate) fn is_closed(&self) -> bool {
        // A hint. `enter` refuses an item of a closed queue.
        self.timers.load(Ordering::Relaxed) & QUEUE_CLOSED != 0
    }

    /// Returns the number of values, waiting and due.
    pub(crate) fn len(&self) -> usize {
        lock(&self.members).len()
    }

    /// Returns the least that `of` returns for a listed item whose value has not come out. `of` runs under the lock of the
    /// members, and must be no foreign code.
    pub(crate) fn min<K: Ord>(&self, of: impl Fn(&Item<T, B>) -> K) -> Option<K> {
        lock(&self.members).iter().filter(|item| !item.is_claimed()).map(|item| of(item)).min()
    }

    /// Adds items that are due, and ends their timers. Returns the number of tasks to be [woken](Self::wake).
    fn add_due(&self, items: Vec<DueItem<T, B>>) -> usize {
        let values = items.len();
        let mut line = lock(&self.line);
        let removed = line.add_due(items);
        // Under the lock: see the head. Loom model `delay_queue`.
        self.timers.fetch_sub(ONE_TIMER * values as u64, Ordering::Relaxed);
        let tasks = self.choose(line, values);
        drop(removed);
        tasks
    }

    /// Ends a timer whose item does not become due.
    fn end_timer(&self) {
        if self.timers.fetch_sub(ONE_TIMER, Ordering::Relaxed) == ONE_TIMER | QUEUE_CLOSED {
            self.wake(self.choose(lock(&self.line), 0));
        }
    }

    fn is_over(&self) -> bool {
        self.timers.load(Ordering::Relaxed) == QUEUE_CLOSED
    }

    /// Chooses consumers for as many `values`, or all if the queue is over, and releases the lock. Unparks the threads
    /// among them. Returns the number of tasks to be [woken](Self::wake).
    fn choose(&self, mut line: MutexGuard<'_, Line<T, B>>, values: usize) -> usize {
        let (threads, tasks) = line.choose(self.is_over(), values);
        drop(line);
        threads.into_iter().for_each(|thread| thread.unpark());
        tasks
    }

    /// Takes an item off the list, unless a [`drain`](Self::drain) has. The last item takes its index. The caller has
    /// another count of the item, so the drop here is not the last. Amortised constant time.
    fn unlist(&self, item: &Arc<Item<T, B>>) {
        let mut members = lock(&self.members);
        let index = item.index.load(Ordering::Relaxed);
        if !members.get(index as usize).is_some_and(|listed| Arc::ptr_eq(listed, item)) {
            return;
        }
        members.swap_remove(index as usize);
        if let Some(moved) = members.get(index as usize) {
            moved.index.store(index, Ordering::Relaxed);
        }
        // So the memory follows the number of items.
        let capacity = members.capacity();
        if members.len() < capacity / 4 {
            members.shrink_to(RETAINED.max(capacity / 2));
        }
    }

    fn drop_uncalled(&self, former: impl IntoIterator<Item = TaskOrThread>) {
        for former in former {
            if let TaskOrThread::Task(waker) = former {
                (self.apply)(mem::drop, waker);
            }
        }
    }
}

/// The timer's part in a value: makes its item due, or is dropped before. Either ends the item's timer.
pub(crate) struct Expiry<T, B> {
    queue: Arc<HandOver<T, B>>,
    /// `None`: it is delivered.
    item: Option<Arc<Item<T, B>>>,
}

impl<T, B> Expiry<T, B> {
    /// Begins to add a value to a queue. The caller schedules a timer for the expiry, and then
    /// [lists](HandOver::list) the item. Returns the value if the queue is closed.
    pub(crate) fn enter(queue: &Arc<HandOver<T, B>>, value: T, beside: B) -> Result<(Arc<Item<T, B>>, Self), T> {
        // One word has the count and the flag, so a consumer that finds the queue over has missed no value. Loom model
        // `delay_queue`.
        if queue.timers.fetch_add(ONE_TIMER, Ordering::Relaxed) & QUEUE_CLOSED != 0 {
            queue.end_timer();
            return Err(value);
        }
        let item = Arc::new(Item::new(value, beside));
        Ok((item.clone(), Self { queue: queue.clone(), item: Some(item) }))
    }
}

impl<T: Send + 'static, B: Send + Sync + 'static> Expiry<T, B> {
    /// Makes the item due, with the others of the turn: its deadline has come, at `tick`.
    pub(crate) fn deliver(mut self, tick: u64, deliveries: &mut Deliveries) {
        let new = || ItemDelivery { queue: self.queue.clone(), items: Vec::new(), tasks: 0 };
        let delivery = deliveries.of(Arc::as_ptr(&self.queue).addr(), new);
        delivery.items.extend(self.item.take().map(|item| (item, tick)));
    }
}

impl<T, B> Drop for Expiry<T, B> {
    fn drop(&mut self) {
        if self.item.is_some() {
            self.queue.end_timer();
        }
    }
}

/// The items of one queue that a driver makes due in one turn. Its drop wakes tasks.
struct ItemDelivery<T, B> {
    queue: Arc<HandOver<T, B>>,
    /// Items whose timers count as pending until the items are handed over.
    items: Vec<DueItem<T, B>>,
    /// Number of tasks to be woken.
    tasks: usize,
}

impl<T: Send + 'static, B: Send + Sync + 'static> Delivery for ItemDelivery<T, B> {
    /// Hands the items over, in order, and unparks threads that wait for them. Calls no foreign code.
    fn publish(&mut self) -> bool {
        self.tasks = self.queue.add_due(mem::take(&mut self.items));
        self.tasks > 0
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

impl<T, B> Drop for ItemDelivery<T, B> {
    fn drop(&mut self) {
        self.queue.wake(self.tasks);
    }
}

#[cfg(all(test, not(loom)))]
#[path = "hand_over_tests.rs"]
mod tests;
