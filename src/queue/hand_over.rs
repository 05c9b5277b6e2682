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

use std::mem;
use std::task::{Poll, Waker};

use super::item::{DueItem, Item};
use super::line::{Consumer, Line, TaskOrThread};
use super::members::Members;
use crate::sync::{Arc, AtomicU64, Mutex, MutexGuard, Ordering, lock};

/// In [`HandOver::timers`]: the timer has been shut down. The other bits count in steps of [`ONE_TIMER`].
const QUEUE_CLOSED: u64 = 1;
const ONE_TIMER: u64 = 2;

/// Calls or drops a waker, and lets no panic out.
type Apply = dyn Fn(fn(Waker), Waker) + Send + Sync;

/// The part of a queue that producers, drivers and consumers share.
pub(crate) struct HandOver<T, H> {
    /// Timers of items that have not ended, and whether the queue is closed. Each access is relaxed: the lock of the line
    /// orders what consumers must know of it.
    timers: AtomicU64,
    members: Mutex<Members<T, H>>,
    line: Mutex<Line<T, H>>,
    apply: Box<Apply>,
}

impl<T, H> HandOver<T, H> {
    pub(crate) fn new(apply: impl Fn(fn(Waker), Waker) + Send + Sync + 'static) -> Self {
        Self {
            timers: AtomicU64::new(0),
            members: Mutex::new(Members::new()),
            line: Mutex::new(Line::new()),
            apply: Box::new(apply),
        }
    }

    /// Begins a push: counts the timer of a new item. Returns false, without effect, if the queue is closed.
    pub(super) fn enter(&self) -> bool {
        // One word has the count and the flag, so a consumer that finds the queue over has missed no value. Loom model
        // `delay_queue`.
        if self.timers.fetch_add(ONE_TIMER, Ordering::Relaxed) & QUEUE_CLOSED != 0 {
            self.end_timer();
            return false;
        }
        true
    }

    /// Ends a push, whose timer is scheduled: lists the item, unless its value has come out already.
    pub(crate) fn list(&self, item: Arc<Item<T, H>>) {
        let mut members = lock(&self.members);
        // The thread that takes the value looks for the item under this lock, before or after.
        if !item.is_claimed() {
            members.list(item);
        }
    }

    /// Adds items that are due, and ends their timers. Returns the number of tasks to be [woken](Self::wake).
    pub(super) fn add_due(&self, items: Vec<DueItem<T, H>>) -> usize {
        let values = items.len();
        let mut line = lock(&self.line);
        let _removed = line.add_due(items);
        // Under the lock: see the head. Loom model `delay_queue`.
        self.timers.fetch_sub(ONE_TIMER * values as u64, Ordering::Relaxed);
        self.choose(line, values)
    }

    /// Ends a timer whose item does not become due.
    pub(super) fn end_timer(&self) {
        if self.timers.fetch_sub(ONE_TIMER, Ordering::Relaxed) == ONE_TIMER | QUEUE_CLOSED {
            self.wake(self.choose(lock(&self.line), 0));
        }
    }

    /// Takes the value of an item, unless it has come out before. The caller has ended the timer; `may_be_due`: it found
    /// the timer ended.
    pub(crate) fn remove(&self, item: &Arc<Item<T, H>>, may_be_due: bool) -> Option<T> {
        let value = item.claim()?;
        self.unlist(item);
        if may_be_due {
            self.take_due(item);
        }
        Some(value)
    }

    /// Takes the first value that is due. `Ready(None)`: the queue is over. Otherwise has the consumer wait, if it says
    /// what to wake.
    pub(crate) fn poll(&self, consumer: &Consumer, mut wake: Option<TaskOrThread>) -> Poll<Option<(T, DueItem<T, H>)>> {
        let mut line = lock(&self.line);
        let popped = line.pop();
        let is_over = popped.is_none() && self.is_over();
        let former = match popped {
            None if !is_over => wake.take().and_then(|wake| line.wait(consumer, wake)),
            _ => line.end_wait(consumer),
        };
        drop(line);
        if let Some((_, (item, _))) = &popped {
            self.unlist(item);
        }
        // The drop of a waker is foreign code, so it comes last.
        self.drop_uncalled(former.into_iter().chain(wake));
        if popped.is_none() && !is_over { Poll::Pending } else { Poll::Ready(popped) }
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
    pub(crate) fn drain(&self) -> impl Iterator<Item = (T, Arc<Item<T, H>>)> {
        let members = lock(&self.members).drain();
        let take = |item: Arc<Item<T, H>>| {
            let value = item.claim()?;
            self.take_due(&item);
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
    pub(crate) fn min<K: Ord>(&self, of: impl Fn(&Item<T, H>) -> K) -> Option<K> {
        lock(&self.members).0.iter().filter(|item| !item.is_claimed()).map(|item| of(item)).min()
    }

    fn is_over(&self) -> bool {
        self.timers.load(Ordering::Relaxed) == QUEUE_CLOSED
    }

    /// Chooses consumers for as many `values`, or all if the queue is over, and releases the lock. Unparks the threads
    /// among them. Returns the number of tasks to be [woken](Self::wake).
    fn choose(&self, mut line: MutexGuard<'_, Line<T, H>>, values: usize) -> usize {
        let (threads, tasks) = line.choose(self.is_over(), values);
        drop(line);
        threads.into_iter().for_each(|thread| thread.unpark());
        tasks
    }

    fn unlist(&self, item: &Arc<Item<T, H>>) {
        let _unlisted = lock(&self.members).unlist(item);
    }

    fn take_due(&self, item: &Item<T, H>) {
        let _due = lock(&self.line).remove(item);
    }

    fn drop_uncalled(&self, former: impl IntoIterator<Item = TaskOrThread>) {
        for former in former {
            if let TaskOrThread::Task(waker) = former {
                (self.apply)(mem::drop, waker);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    type Queue = HandOver<u32, ()>;

    fn item(queue: &Queue, value: u32) -> Arc<Item<u32, ()>> {
        let item = Arc::new(Item::new(value));
        assert!(queue.enter());
        queue.list(item.clone());
        item
    }

    #[test]
    fn a_value_that_is_removed_leaves_nothing_while_a_consumer_has_its_lock() {
        let queue = Queue::new(|act, waker| act(waker));
        let _line = lock(&queue.line);
        for value in 0..1000 {
            let item = item(&queue, value);
            assert_eq!(queue.remove(&item, false), Some(value));
            assert_eq!((Arc::strong_count(&item), queue.len()), (1, 0));
        }
    }

    /// A handle whose drop sends whether the consumers' lock is free.
    struct Looks(Arc<HandOver<u32, Looks>>, mpsc::Sender<bool>);

    impl Drop for Looks {
        fn drop(&mut self) {
            self.1.send(self.0.line.try_lock().is_ok()).unwrap();
        }
    }

    #[test]
    fn a_value_that_is_removed_before_the_driver_adds_it_is_dropped_without_the_lock() {
        let queue = Arc::new(HandOver::new(|act, waker| act(waker)));
        let (sender, receiver) = mpsc::channel();
        let item = Arc::new(Item::new(7));
        assert!(queue.enter() && item.handle.set(Looks(queue.clone(), sender)).is_ok());
        queue.list(item.clone());
        assert_eq!(queue.remove(&item, true), Some(7));
        assert_eq!((queue.add_due(vec![(item, 0)]), receiver.recv()), (0, Ok(true)));
    }

    #[test]
    fn a_driver_waits_for_no_producer() {
        let queue = Queue::new(|act, waker| act(waker));
        let item = item(&queue, 7);
        let members = lock(&queue.members);
        thread::scope(|scope| {
            let driver = scope.spawn(|| queue.add_due(vec![(item, 0)]));
            let waits = (0..500).all(|_| {
                thread::sleep(Duration::from_millis(10));
                !driver.is_finished()
            });
            drop(members);
            assert!(!waits);
        });
        assert!(matches!(queue.poll(&Consumer::default(), None), Poll::Ready(Some((7, ..)))));
    }

    #[test]
    fn a_value_that_is_removed_when_it_is_due_leaves_nothing() {
        let queue = Queue::new(|act, waker| act(waker));
        let item = item(&queue, 7);
        queue.add_due(vec![(item.clone(), 0)]);
        assert_eq!((queue.remove(&item, true), Arc::strong_count(&item)), (Some(7), 1));
    }
}
