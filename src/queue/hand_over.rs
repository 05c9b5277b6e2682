//! The way of a value from its producer to one consumer.
//!
//! ```text
//! push ───► entered ──┐                      the lock
//! driver ─► due ──────┼──► taken over by ──► members, ready, waiting consumers ──► pop
//! remove ─► left ─────┘    the lock's owner
//! ```
//!
//! Producers, drivers and threads that remove a value wait for nobody: they push to lock-free [stacks](crate::sync::stack). A
//! consumer takes the lock, which guards the [line](super::line). The lock's owner takes over what is on the stacks.
//! Other threads only *try* the lock. If it is taken, its owner does their work: see [`settle`](HandOver::settle).
//!
//! # No wake-up is lost
//!
//! A driver pushes all values of a turn [together](super::expiry), and then looks for consumers. If it finds none, it does
//! not touch the lock. A thread that finds the lock taken goes away. Each thread makes a fence between its own write and
//! its look at the other's:
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
//! blocked in `pop`. So the thread that settles a queue unparks such threads itself, and returns the wakers. A driver first
//! settles all queues of its turn, and then calls the wakers.
//!
//! # The end
//!
//! A queue is over when its timer is shut down and no timer of an item can fire any more. One word counts the timers and
//! says whether the queue is closed. The timer of an item that is due ends after the push to `due`. So a consumer that
//! reads the word before it takes over `due` finds all that was due.

use std::task::{Poll, Waker};

use super::due::{Due, DueBatch};
use super::item::Item;
use super::line::{Consumer, Line, Waiter};
use crate::sync::stack::Stack;
use crate::sync::{Arc, AtomicU64, Mutex, MutexGuard, Ordering, fence, lock};

/// The timer has been shut down. The other bits of [`HandOver::timers`] count in steps of [`TIMER`].
const CLOSED: u64 = 1;
const TIMER: u64 = 2;

/// Every so many values, a producer helps to list what has entered. A power of two.
const HELP: u64 = 64;

/// The shared part of a queue.
pub(crate) struct HandOver<T, H> {
    /// Timers of items that have not ended, and whether the queue is closed.
    timers: AtomicU64,
    /// Number of values, waiting and due.
    len: AtomicU64,
    /// Number of consumers that wait. Written under the lock.
    waiting: AtomicU64,
    entered: Stack<Item<T, H>>,
    due: Stack<DueBatch<T, H>>,
    left: Stack<Item<T, H>>,
    line: Mutex<Line<T, H>>,
    /// Wakes a consumer, and lets no panic out.
    wake: Box<dyn Fn(Waker) + Send + Sync>,
    /// Drops a waker that is not called, and lets no panic out.
    discard: Box<dyn Fn(Waker) + Send + Sync>,
}

/// A value that came out of a queue.
pub(crate) struct Popped<T> {
    pub(crate) value: T,
    /// The tick at which it became due.
    pub(crate) tick: u64,
    /// The deadline that the last reset gave, or [`NOT_RESET`](super::item::NOT_RESET).
    pub(super) reset_to: u64,
}

impl<T, H> HandOver<T, H> {
    pub(crate) fn new(
        wake: impl Fn(Waker) + Send + Sync + 'static,
        discard: impl Fn(Waker) + Send + Sync + 'static,
    ) -> Self {
        Self {
            timers: AtomicU64::new(0),
            len: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            entered: Stack::new(|item| &item.entered_before),
            due: Stack::new(|batch| &batch.before),
            left: Stack::new(|item| &item.left_before),
            line: Mutex::new(Line::new()),
            wake: Box::new(wake),
            discard: Box::new(discard),
        }
    }

    /// Adds an item, whose timer is scheduled afterwards. Lock-free.
    pub(super) fn enter(&self, item: Arc<Item<T, H>>) {
        // Relaxed: the item's own timer ends after this, as the same thread schedules it.
        self.timers.fetch_add(TIMER, Ordering::Relaxed);
        // Relaxed: a number for itself.
        let len = self.len.fetch_add(1, Ordering::Relaxed);
        // Before its timer is scheduled: what is due has entered. Loom model `delay_queue`.
        self.entered.push(item);
        if len % HELP == HELP - 1 {
            self.help();
        }
    }

    /// Adds items that are due, and ends their timers. Returns the wakers to be [called](Self::wake). Lock-free.
    pub(super) fn add_due(&self, items: Vec<Due<T, H>>) -> Vec<Waker> {
        let timers = TIMER * items.len() as u64;
        self.due.push(DueBatch::new(items));
        // Release: publishes the push; pairs with `is_over`, as all later changes of the word continue the release sequence.
        // Loom model `delay_queue`.
        self.timers.fetch_sub(timers, Ordering::Release);
        self.settle()
    }

    /// Ends a timer whose item does not become due.
    pub(super) fn end_timer(&self) {
        // Relaxed: publishes nothing.
        if self.timers.fetch_sub(TIMER, Ordering::Relaxed) == TIMER | CLOSED {
            self.wake(self.settle());
        }
    }

    /// Takes the value of an item, unless it has come out before. The caller has ended the timer. Lock-free.
    pub(crate) fn remove(&self, item: &Arc<Item<T, H>>) -> Option<T> {
        let value = item.claim()?;
        self.count_out();
        self.left.push(item.clone());
        self.wake(self.settle());
        Some(value)
    }

    /// Takes the first value that is due. `Ready(None)`: the queue is over. Otherwise has the consumer wait, if it gives a
    /// `waiter`. Takes the lock.
    pub(crate) fn poll(&self, consumer: &Consumer, mut waiter: Option<Waiter>) -> Poll<Option<Popped<T>>> {
        // Before the items that are due are taken over: see the head.
        let over = self.is_over();
        let mut gone = Vec::new();
        let mut line = lock(&self.line);
        self.take_over(&mut line, &mut gone);
        line.look(consumer);
        let popped = line.pop(|item| gone.push(item));
        let old = match popped {
            None if !over => waiter.take().and_then(|waiter| line.wait(consumer, waiter)),
            _ => line.end_wait(consumer),
        };
        self.unlock(line, over);
        drop(gone);
        // The drop of a waker is foreign code, so it comes after the unlock.
        old.into_iter().chain(waiter).for_each(|waiter| self.discard(waiter));
        match popped {
            Some((value, Due { item, tick })) => {
                self.count_out();
                Poll::Ready(Some(Popped { value, tick, reset_to: item.reset_to() }))
            }
            None if over => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    /// Ends the wait of a consumer that goes away. If it was woken, another is woken in its place.
    pub(crate) fn leave(&self, consumer: &Consumer) {
        if consumer.is_in_line() {
            let mut line = lock(&self.line);
            let old = line.go(consumer);
            self.unlock(line, self.is_over());
            old.into_iter().for_each(|waiter| self.discard(waiter));
        }
    }

    /// Takes all values out of a queue that has no producers and no consumers any more.
    pub(crate) fn clear(&self) -> impl Iterator<Item = (T, Arc<Item<T, H>>)> {
        let mut gone = Vec::new();
        let mut line = lock(&self.line);
        self.take_over(&mut line, &mut gone);
        let members = line.clear();
        drop(line);
        members.filter_map(|item| {
            let value = item.claim()?;
            self.count_out();
            Some((value, item))
        })
    }

    /// Notes that the timer has been shut down. Once nothing can become due any more, consumers wait no longer. Returns the
    /// wakers to be [called](Self::wake).
    pub(crate) fn close(&self) -> Vec<Waker> {
        // Relaxed: publishes nothing.
        self.timers.fetch_or(CLOSED, Ordering::Relaxed);
        self.settle()
    }

    /// Calls the wakers of tasks that were chosen.
    pub(crate) fn wake(&self, wakers: Vec<Waker>) {
        wakers.into_iter().for_each(&self.wake);
    }

    /// Returns whether the timer has been shut down.
    pub(crate) fn is_closed(&self) -> bool {
        // Relaxed: a hint. The shard refuses a timer after its shutdown.
        self.timers.load(Ordering::Relaxed) & CLOSED != 0
    }

    /// Returns the number of values, waiting and due.
    pub(crate) fn len(&self) -> u64 {
        // Relaxed: a number for itself.
        self.len.load(Ordering::Relaxed)
    }

    fn count_out(&self) {
        self.len.fetch_sub(1, Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        // Acquire: what became due before; pairs with the end of each timer.
        self.timers.load(Ordering::Acquire) == CLOSED
    }

    /// Takes over what is on the stacks. `gone` receives items, to be dropped outside of the lock.
    fn take_over(&self, line: &mut Line<T, H>, gone: &mut Vec<Arc<Item<T, H>>>) {
        // In this order: what has left or is due has entered before, so it is listed by then.
        let (left, due) = (self.left.take_all(), self.due.take_all());
        self.entered.take_all().for_each(|item| line.enter(item));
        due.for_each(|batch| line.add_due(DueBatch::into_items(batch)));
        for item in left {
            gone.extend(line.leave(&item));
            gone.push(item);
        }
        line.purge(|item| gone.push(item));
    }

    /// Releases the lock, and wakes the consumers whose turn it is.
    fn unlock(&self, line: MutexGuard<'_, Line<T, H>>, over: bool) {
        let mut wakers = Vec::new();
        self.release(line, over, &mut wakers);
        wakers.append(&mut self.settle());
        self.wake(wakers);
    }

    /// Releases the lock. Unparks the threads whose turn it is, and adds the wakers of the tasks to `wakers`.
    fn release(&self, mut line: MutexGuard<'_, Line<T, H>>, over: bool, wakers: &mut Vec<Waker>) {
        let chosen = line.choose(over);
        // Relaxed: the fence in `settle` orders it.
        self.waiting.store(line.waiting(), Ordering::Relaxed);
        drop(line);
        for waiter in chosen {
            match waiter {
                Waiter::Thread(thread) => thread.unpark(),
                Waiter::Task(waker) => wakers.push(waker),
            }
        }
    }

    /// Does what is left to do, unless the owner of the lock does it. To be called after pushes to a stack, and after each
    /// unlock. Returns the wakers to be [called](Self::wake).
    ///
    /// Lock-free: each round after the first serves what another thread has pushed, or how it has begun to wait, since the
    /// round before. That thread found the lock taken and went away, so these rounds are its share.
    fn settle(&self) -> Vec<Waker> {
        let mut wakers = Vec::new();
        loop {
            // Between what the caller has written, or the unlock, and the looks: see the head. Loom model `delay_queue`.
            fence(Ordering::SeqCst);
            // Relaxed: ordered by the fence.
            let has_waiting = || self.waiting.load(Ordering::Relaxed) > 0;
            let is_wake_up = || (!self.due.is_empty() || self.is_over()) && has_waiting();
            if self.left.is_empty() && !is_wake_up() {
                return wakers;
            }
            let over = self.is_over();
            let Ok(mut line) = self.line.try_lock() else { return wakers };
            let mut gone = Vec::new();
            self.take_over(&mut line, &mut gone);
            self.release(line, over, &mut wakers);
        }
    }

    /// Lists what has entered, unless the owner of the lock is about to do it.
    fn help(&self) {
        if let Ok(mut line) = self.line.try_lock() {
            let mut gone = Vec::new();
            self.take_over(&mut line, &mut gone);
            self.unlock(line, false);
        }
    }

    fn discard(&self, waiter: Waiter) {
        if let Waiter::Task(waker) = waiter {
            (self.discard)(waker);
        }
    }
}
