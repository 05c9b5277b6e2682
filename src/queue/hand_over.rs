//! How a value travels from its producer to one consumer.
//!
//! ```text
//! push ───► entered ──┐                      the lock
//! driver ─► due ──────┼──► taken over by ──► members, ready, waiting consumers ──► pop
//! remove ─► removed ──┘    the lock's owner
//! ```
//!
//! Producers, drivers and threads that remove a value wait for no thread: they push to lock-free [stacks](crate::sync::stack).
//! A consumer takes the lock, which guards the [line](super::line). The lock's owner takes over what is on the stacks.
//! Other threads only *try* the lock. If it is taken, its owner does their work: see [`settle`](HandOver::settle).
//!
//! # No wake-up is lost
//!
//! A driver pushes all values of a turn [together](super::expiry), and then looks for consumers. If it finds none, it does
//! not touch the lock. A thread that finds the lock taken does no more. Each thread makes a fence between its own write
//! and its look at the other's:
//!
//! ```text
//! driver                    consumer                     owner of the lock
//! ──────                    ────────                     ─────────────────
//! push to `due`             `waiting` := 1, unlock       unlock
//! fence                     fence                        fence
//! `waiting` > 0? then try   `due` not empty? then try    `due` not empty? then try
//! the lock and wake one     the lock and wake one        the lock and wake one
//! ```
//!
//! The fences are sequentially consistent. If the driver's comes first, the consumer sees the item. Otherwise the driver
//! sees that a consumer waits. If it then finds the lock taken, the unlock comes after its fence, so the owner sees the
//! item. Loom model `delay_queue` checks it, and fails without the fence.
//!
//! # Foreign code comes last
//!
//! The waker of a task is foreign code: it may shut the timer down, which waits for callbacks, and a callback may be
//! blocked in `pop`. So no waker may come before a blocked thread, of any queue. The thread that settles a queue unparks
//! such threads itself, and returns the wakers. A driver first settles all queues of its turn, and then calls the wakers.
//! So a waiter is a task *or* a thread: if the thread were hidden in a waker, the two could not be told apart.
//!
//! # The end
//!
//! A queue is closed by its user, or by the shutdown of its timer. It is over when it is closed and no timer of an item
//! can fire any more. A shutdown holds all queues until it has ended all timers: the end of one calls no waker. One
//! word counts the timers and says whether the queue is closed. The timer of an item that is due ends after the push to
//! `due`. So a consumer that reads the word before it takes over `due` finds all that was due.

use std::mem;
use std::task::{Poll, Waker};

use super::item::{Due, DueBatch, Item};
use super::line::{Consumer, Line, Waiter};
use crate::sync::stack::Stack;
use crate::sync::{Arc, AtomicPtr, AtomicU64, Mutex, MutexGuard, Ordering, fence, lock};

/// In [`HandOver::timers`]: the timer has been shut down. The other bits count in steps of [`ONE_TIMER`].
const QUEUE_CLOSED: u64 = 1;
const ONE_TIMER: u64 = 2;

/// Every so many values, a producer helps to list what has entered. A power of two.
const HELP: u64 = 64;

/// Calls or drops a waker, and lets no panic out.
type Apply = dyn Fn(fn(Waker), Waker) + Send + Sync;

/// The part of a queue that producers, drivers and consumers share.
pub(crate) struct HandOver<T, H> {
    /// Timers of items that have not ended, and whether the queue is closed.
    timers: AtomicU64,
    /// Number of values, waiting and due. A number for itself, so each access is relaxed.
    len: AtomicU64,
    /// Number of consumers that wait. Written under the lock.
    waiting: AtomicU64,
    entered: Stack<Item<T, H>>,
    due: Stack<DueBatch<T, H>>,
    removed: Stack<Item<T, H>>,
    line: Mutex<Line<T, H>>,
    apply: Box<Apply>,
}

impl<T, H> HandOver<T, H> {
    pub(crate) fn new(apply: impl Fn(fn(Waker), Waker) + Send + Sync + 'static) -> Self {
        Self {
            timers: AtomicU64::new(0),
            len: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            entered: Stack::new(|item| &item.entered_before),
            due: Stack::new(|batch| &batch.before),
            removed: Stack::new(|item| &item.removed_before),
            line: Mutex::new(Line::new()),
            apply: Box::new(apply),
        }
    }

    /// Adds an item, whose timer is scheduled afterwards. Returns false, without effect, if the queue is closed.
    /// Lock-free.
    pub(super) fn enter(&self, item: Arc<Item<T, H>>) -> bool {
        // Relaxed: the item's own timer ends after this, as the same thread schedules it. One word has the count and the
        // flag, so a consumer that finds the queue over has missed no value. Loom model `delay_queue`.
        if self.timers.fetch_add(ONE_TIMER, Ordering::Relaxed) & QUEUE_CLOSED != 0 {
            self.end_timer();
            return false;
        }
        let len = self.len.fetch_add(1, Ordering::Relaxed);
        // Before its timer is scheduled: what is due has entered. Loom model `delay_queue`.
        self.entered.push(item);
        if len % HELP == HELP - 1 {
            if let Ok(mut line) = self.line.try_lock() {
                self.take_over(&mut line);
                self.unlock(line, None);
            }
        }
        true
    }

    /// Adds items that are due, and ends their timers. Returns the wakers to be [called](Self::wake). Lock-free.
    pub(super) fn add_due(&self, items: Vec<Due<T, H>>) -> Vec<Waker> {
        let timers = ONE_TIMER * items.len() as u64;
        self.due.push(Arc::new(DueBatch { items, before: AtomicPtr::default() }));
        // Release: publishes the push; pairs with `is_over`, as all later changes of the word continue the release sequence.
        // Loom model `delay_queue`.
        self.timers.fetch_sub(timers, Ordering::Release);
        self.settle()
    }

    /// Ends a timer whose item does not become due.
    pub(super) fn end_timer(&self) {
        // Relaxed: publishes nothing.
        if self.timers.fetch_sub(ONE_TIMER, Ordering::Relaxed) == ONE_TIMER | QUEUE_CLOSED {
            self.wake(self.settle());
        }
    }

    /// Takes the value of an item, unless it has come out before. The caller has ended the timer. Lock-free.
    pub(crate) fn remove(&self, item: &Arc<Item<T, H>>) -> Option<T> {
        let value = item.claim()?;
        self.len.fetch_sub(1, Ordering::Relaxed);
        self.removed.push(item.clone());
        self.wake(self.settle());
        Some(value)
    }

    /// Takes the first value that is due. `Ready(None)`: the queue is over. Otherwise has the consumer wait, if it gives a
    /// `waiter`. Takes the lock.
    pub(crate) fn poll(&self, consumer: &Consumer, mut waiter: Option<Waiter>) -> Poll<Option<(T, Due<T, H>)>> {
        // Before the items that are due are taken over: see the head.
        let over = self.is_over();
        let mut line = lock(&self.line);
        self.take_over(&mut line);
        let popped = line.pop();
        let former = match popped {
            None if !over => waiter.take().and_then(|waiter| line.wait(consumer, waiter)),
            _ => line.end_wait(consumer),
        };
        self.unlock(line, former.into_iter().chain(waiter));
        match popped {
            None if !over => Poll::Pending,
            popped => Poll::Ready(popped.inspect(|_| _ = self.len.fetch_sub(1, Ordering::Relaxed))),
        }
    }

    /// Ends the wait of a consumer that will not look again. If it was woken, another is woken in its place.
    pub(crate) fn withdraw(&self, consumer: &Consumer) {
        if consumer.ticket() != 0 {
            let mut line = lock(&self.line);
            let waiter = line.withdraw(consumer);
            self.unlock(line, waiter);
        }
    }

    /// Takes all values whose items are `ready` for it, due or not. The caller ends their timers. Takes the lock.
    pub(crate) fn drain(&self, ready: impl Fn(&Item<T, H>) -> bool) -> Vec<(T, Arc<Item<T, H>>)> {
        let mut line = lock(&self.line);
        self.take_over(&mut line);
        let drained = line.drain(ready);
        // Relaxed: a number for itself.
        self.len.fetch_sub(drained.len() as u64, Ordering::Relaxed);
        self.unlock(line, None);
        drained
    }

    /// Accepts no more values. Once nothing can become due any more, consumers wait no longer. Returns the wakers to be
    /// [called](Self::wake).
    pub(crate) fn close(&self) -> Vec<Waker> {
        // Relaxed: publishes nothing.
        self.timers.fetch_or(QUEUE_CLOSED, Ordering::Relaxed);
        self.settle()
    }

    /// Keeps the queue from being over until [`close_held`](Self::close_held).
    pub(crate) fn hold(&self) {
        // Relaxed: publishes nothing.
        self.timers.fetch_add(ONE_TIMER, Ordering::Relaxed);
    }

    /// Ends a hold and [closes](Self::close) the queue.
    pub(crate) fn close_held(&self) -> Vec<Waker> {
        // Relaxed: publishes nothing.
        self.timers.fetch_sub(ONE_TIMER, Ordering::Relaxed);
        self.close()
    }

    /// Calls the wakers of tasks that were chosen.
    pub(crate) fn wake(&self, wakers: Vec<Waker>) {
        wakers.into_iter().for_each(|waker| (self.apply)(Waker::wake, waker));
    }

    /// Returns whether the queue accepts no more values.
    pub(crate) fn is_closed(&self) -> bool {
        // Relaxed: a hint. `enter` refuses an item of a closed queue.
        self.timers.load(Ordering::Relaxed) & QUEUE_CLOSED != 0
    }

    /// Returns the number of values, waiting and due.
    pub(crate) fn len(&self) -> u64 {
        self.len.load(Ordering::Relaxed)
    }

    fn is_over(&self) -> bool {
        // Acquire: what became due before; pairs with the end of each timer.
        self.timers.load(Ordering::Acquire) == QUEUE_CLOSED
    }

    /// Takes over what is on the stacks.
    fn take_over(&self, line: &mut Line<T, H>) {
        // In this order: what was removed or is due has entered before, so it is listed by then.
        let (removed, due) = (self.removed.take_all(), self.due.take_all());
        self.entered.take_all().for_each(|item| line.enter(item));
        due.for_each(|batch| line.add_due(batch));
        removed.for_each(|item| line.remove(item));
        line.purge();
    }

    /// Releases the lock, and wakes the consumers whose turn it is. Drops waiters that are not called.
    fn unlock(&self, line: MutexGuard<'_, Line<T, H>>, uncalled: impl IntoIterator<Item = Waiter>) {
        let mut wakers = self.release(line);
        wakers.append(&mut self.settle());
        self.wake(wakers);
        // The drop of a waker is foreign code, so it comes last, too.
        for waiter in uncalled {
            if let Waiter::Task(waker) = waiter {
                (self.apply)(drop, waker);
            }
        }
    }

    /// Releases the lock. Unparks the threads whose turn it is, and returns the wakers of the tasks.
    fn release(&self, mut line: MutexGuard<'_, Line<T, H>>) -> Vec<Waker> {
        let chosen = line.choose(self.is_over());
        // Relaxed: the fence in `settle` orders it.
        self.waiting.store(line.waiting.len() as u64, Ordering::Relaxed);
        let _discarded = mem::take(&mut line.discarded);
        drop(line);
        let mut wakers = Vec::new();
        for waiter in chosen {
            match waiter {
                Waiter::Thread(thread, consumer) => consumer.wake(&thread),
                Waiter::Task(waker) => wakers.push(waker),
            }
        }
        wakers
    }

    /// Does what is left to do, unless the owner of the lock does it. To be called after pushes to a stack, and after each
    /// unlock. Returns the wakers to be [called](Self::wake).
    ///
    /// Lock-free: each round after the first serves what another thread has pushed, or how it has begun to wait, since the
    /// round before. That thread found the lock taken and did no more, so these rounds are its share.
    fn settle(&self) -> Vec<Waker> {
        let mut wakers = Vec::new();
        loop {
            // Between what the caller has written, or the unlock, and the looks: see the head. Loom model `delay_queue`.
            fence(Ordering::SeqCst);
            // Relaxed: ordered by the fence.
            let is_wake_up = || (!self.due.is_empty() || self.is_over()) && self.waiting.load(Ordering::Relaxed) > 0;
            if self.removed.is_empty() && !is_wake_up() {
                return wakers;
            }
            let Ok(mut line) = self.line.try_lock() else { return wakers };
            self.take_over(&mut line);
            wakers.append(&mut self.release(line));
        }
    }
}
