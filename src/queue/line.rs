//! The values of a queue, which of them are due, and the consumers that wait for one.
//!
//! # One taker
//!
//! A value comes out once, because one read-modify-write decides which thread takes it: [`Item::claim`]. A consumer,
//! `remove` and the drop of the queue may try at the same time. The timer of the item takes nothing; it only makes the
//! item due.
//!
//! # Which consumers are woken
//!
//! A consumer that finds nothing waits in the [`Line`], by a number. Each value that becomes due chooses the next consumer
//! in the order of these. A consumer that was chosen may find that another has taken the value; then it waits again. If it
//! withdraws without a look, the next in turn is chosen in its place while a value is due. So a wake-up is never lost
//! with the consumer that received it.
//!
//! The waker of a consumer that was chosen stays here until a thread calls it. A thread that chooses calls as many
//! wakers as it has chosen, the first in turn. So the thread that ends a queue calls all of them, also those which
//! another thread has chosen but cannot call, because a waker before them blocks.

use std::collections::BTreeMap;
use std::iter;
use std::mem::MaybeUninit;
use std::task::Waker;

use crate::sync::thread::Thread;
use crate::sync::{Arc, AtomicBool, AtomicU32, AtomicU64, Ordering, UnsafeCell};

/// A value, and what the queue keeps beside it.
pub(crate) struct Item<T, B> {
    /// A thread has taken the value, or is taking it.
    claimed: AtomicBool,
    value: UnsafeCell<MaybeUninit<T>>,
    pub(super) beside: B,
    /// The item's index in the list of all items. Accessed under the lock of that list only.
    pub(super) index: AtomicU32,
    /// The item's number among those that were ever due, 0 before it is due. Accessed under the consumers' lock only.
    number: AtomicU64,
}

impl<T, B> Item<T, B> {
    pub(super) fn new(value: T, beside: B) -> Self {
        Self {
            claimed: AtomicBool::new(false),
            value: UnsafeCell::new(MaybeUninit::new(value)),
            beside,
            index: AtomicU32::new(0),
            number: AtomicU64::new(0),
        }
    }

    /// Takes the value, unless a thread has taken it before. Wait-free.
    pub(super) fn claim(&self) -> Option<T> {
        // Relaxed: only chooses one thread. The value came to it with the item, by a lock or the key.
        // Loom model `delay_queue`.
        if self.claimed.swap(true, Ordering::Relaxed) {
            return None;
        }
        // SAFETY: we own the value, because the swap above succeeds once. The copy left behind is uninitialised from now on.
        Some(self.value.with(|cell| unsafe { (*cell).assume_init_read() }))
    }

    /// Returns whether a thread has taken the value.
    pub(crate) fn is_claimed(&self) -> bool {
        // Relaxed: the lock under which the caller asks orders it, or it is a hint.
        self.claimed.load(Ordering::Relaxed)
    }
}

impl<T, B> Drop for Item<T, B> {
    fn drop(&mut self) {
        drop(self.claim());
    }
}

// SAFETY: threads share the flag and what is beside the value. The value goes to one thread, which owns it from then on.
unsafe impl<T: Send, B: Send + Sync> Sync for Item<T, B> {}

/// An item whose deadline has come, and the tick at which it became due.
pub(crate) type DueItem<T, B> = (Arc<Item<T, B>>, u64);

/// One that waits in a queue: a clone that is polled, or a thread that is blocked.
#[derive(Default)]
pub(crate) struct Consumer {
    /// The number by which it waits: the lowest is chosen first. 0: it does not wait, and was not chosen since its last
    /// look. Written under the consumers' lock only.
    number: AtomicU64,
}

/// What to wake for a consumer that waits.
pub(crate) enum TaskOrThread {
    /// A task, by its waker.
    Task(Waker),
    /// A thread that is parked. It runs no foreign code between its look and its park, which could take the `unpark`.
    Thread(Thread),
}

impl Consumer {
    pub(super) fn number(&self) -> u64 {
        // Relaxed, here and below: under the lock, or by the owner of the consumer.
        self.number.load(Ordering::Relaxed)
    }
}

/// What the consumers' lock of a queue guards.
pub(super) struct Line<T, B> {
    /// Items that are due, by their numbers.
    ready: BTreeMap<u64, DueItem<T, B>>,
    /// The consumers that wait, and the tasks that were chosen and not called, by their numbers.
    waiting: BTreeMap<u64, TaskOrThread>,
    /// The last number that an item or a consumer was given.
    last_number: u64,
    /// The number of the consumer that was chosen last. Those before it were chosen, too.
    chosen: u64,
}

impl<T, B> Line<T, B> {
    pub(super) fn new() -> Self {
        Self { ready: BTreeMap::new(), waiting: BTreeMap::new(), last_number: 0, chosen: 0 }
    }

    /// Adds items that are due. Returns those that were removed meanwhile, which the caller drops after the unlock: the
    /// drop of a handle may wake a driver.
    pub(super) fn add_due(&mut self, items: Vec<DueItem<T, B>>) -> Vec<DueItem<T, B>> {
        let add = |(item, tick): DueItem<T, B>| {
            if item.is_claimed() {
                return Some((item, tick));
            }
            self.last_number += 1;
            // Relaxed, here and below: under the lock.
            item.number.store(self.last_number, Ordering::Relaxed);
            self.ready.insert(self.last_number, (item, tick))
        };
        items.into_iter().filter_map(add).collect()
    }

    /// Takes an item off whose value was removed. The caller has another count of it, so the drop here is not the last.
    pub(super) fn remove(&mut self, item: &Item<T, B>) {
        self.ready.remove(&item.number.load(Ordering::Relaxed));
    }

    /// Takes the first value that is due, and returns it with its item.
    pub(super) fn pop(&mut self) -> Option<(T, DueItem<T, B>)> {
        // One whose value was claimed is about to be removed here, by a thread that has another count of it. So this drop
        // is not the last.
        iter::from_fn(|| self.ready.pop_first()).find_map(|(_, due)| Some((due.0.claim()?, due)))
    }

    /// Has the consumer wait, which has looked in vain. It keeps its number if it was not chosen. Returns what was to be
    /// woken for it before.
    pub(super) fn wait(&mut self, consumer: &Consumer, wake: TaskOrThread) -> Option<TaskOrThread> {
        let former = self.waiting.remove(&consumer.number());
        if consumer.number() <= self.chosen {
            self.last_number += 1;
            consumer.number.store(self.last_number, Ordering::Relaxed);
        }
        self.waiting.insert(consumer.number(), wake);
        former
    }

    /// Ends the wait of a consumer. Returns what was to be woken for it, if that was not woken.
    pub(super) fn end_wait(&mut self, consumer: &Consumer) -> Option<TaskOrThread> {
        let number = consumer.number();
        consumer.number.store(0, Ordering::Relaxed);
        self.waiting.remove(&number)
    }

    /// Returns whether the consumer was chosen since its last look.
    pub(super) fn was_chosen(&self, consumer: &Consumer) -> bool {
        (1..=self.chosen).contains(&consumer.number())
    }

    /// Chooses as many consumers in turn as there are `values` for them, or all if the queue is `over`. Returns what to
    /// wake: blocked threads, and the number of tasks.
    pub(super) fn choose(&mut self, over: bool, values: usize) -> (Vec<Thread>, usize) {
        // A consumer may have taken one of these values.
        let most = if over { usize::MAX } else { values.min(self.ready.len()) };
        let mut threads = Vec::new();
        let mut tasks = 0;
        while threads.len() + tasks < most {
            let Some((&number, wake)) = self.waiting.range(self.chosen + 1..).next() else { break };
            self.chosen = number;
            match wake {
                TaskOrThread::Task(_) => tasks += 1,
                TaskOrThread::Thread(thread) => {
                    threads.push(thread.clone());
                    self.waiting.remove(&number);
                }
            }
        }
        (threads, if over { self.waiting.len() } else { tasks })
    }

    /// Takes the waker of the first task that was chosen.
    pub(super) fn next_chosen(&mut self) -> Option<Waker> {
        let first = self.waiting.first_entry().filter(|first| *first.key() <= self.chosen)?;
        let TaskOrThread::Task(waker) = first.remove() else { unreachable!("a thread is woken when it is chosen") };
        Some(waker)
    }
}

#[cfg(all(test, not(loom)))]
#[path = "line_tests.rs"]
mod tests;
