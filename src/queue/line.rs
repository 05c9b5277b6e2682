//! What the lock of a queue guards: which items are in the queue, which are due, and which consumers wait.
//!
//! # Which consumers are woken
//!
//! A consumer that finds nothing leaves a [`Waiter`] here, and waits for its turn. Each value that becomes due wakes the
//! next consumer in turn. A consumer that was woken may find that another has taken the value; then it waits again. If it
//! withdraws without a look, it gives its wake-up back, and the next in turn is woken while a value is due. So a wake-up
//! is never lost with the consumer that received it.

use std::collections::{BTreeMap, VecDeque};
use std::task::Waker;
use std::{iter, mem};

use super::item::{Due, DueBatch, Item};
use crate::sync::thread::Thread;
use crate::sync::{Arc, AtomicBool, AtomicU64, Ordering};

/// Capacity that an empty list keeps.
const RETAINED: usize = 1024;

/// The number of removed items from which it is worth to look for them among those that are due.
const FEW: usize = 32;

/// One that waits in a queue: a clone that is polled, or a thread that is blocked.
#[derive(Default)]
pub(crate) struct Consumer {
    /// Its turn. 0: it does not wait, and was not woken since its last look. Written under the queue's lock only.
    ticket: AtomicU64,
    /// A blocked thread was woken, and has not seen it.
    is_woken: AtomicBool,
}

/// How a consumer that waits is woken.
pub(crate) enum Waiter {
    /// A task, by its waker.
    Task(Waker),
    /// A thread that is parked, as which consumer. Foreign code that parks may take its `unpark`, so it has a flag, too.
    Thread(Thread, Arc<Consumer>),
}

impl Consumer {
    /// Wakes the blocked thread.
    pub(super) fn wake(&self, thread: &Thread) {
        // Relaxed, here and below: the `unpark` orders it, and the queue's lock what the thread looks at. A swap, because
        // loom cannot order a plain store against the other one. Loom model `delay_queue`.
        self.is_woken.swap(true, Ordering::Relaxed);
        thread.unpark();
    }

    /// Returns whether the blocked thread was woken since the last call.
    pub(crate) fn was_woken(&self) -> bool {
        self.is_woken.swap(false, Ordering::Relaxed)
    }

    pub(super) fn ticket(&self) -> u64 {
        // Relaxed, here and below: under the lock, or by the owner of the consumer.
        self.ticket.load(Ordering::Relaxed)
    }
}

pub(super) struct Line<T, H> {
    /// All items in the queue. Each knows its index.
    pub(super) members: VecDeque<Arc<Item<T, H>>>,
    /// Items that are due, in order, with those that were removed since.
    ready: VecDeque<Due<T, H>>,
    /// Upper bound of the number of removed items in `ready`.
    removed: usize,
    /// Items that were removed, to be dropped after the unlock.
    pub(super) discarded: Vec<Arc<Item<T, H>>>,
    /// The consumers that wait, by their tickets.
    pub(super) waiting: BTreeMap<u64, Waiter>,
    last_ticket: u64,
    /// Number of wake-ups for which no consumer was chosen yet.
    owed: usize,
}

impl<T, H> Line<T, H> {
    pub(super) fn new() -> Self {
        Self {
            members: VecDeque::new(),
            ready: VecDeque::new(),
            removed: 0,
            discarded: Vec::new(),
            waiting: BTreeMap::new(),
            last_ticket: 0,
            owed: 0,
        }
    }

    /// Lists an item that has entered the queue.
    pub(super) fn enter(&mut self, item: Arc<Item<T, H>>) {
        let index = u32::try_from(self.members.len()).expect("fewer than 2^32 values");
        // Relaxed, here and below: under the lock.
        item.index.store(index, Ordering::Relaxed);
        self.members.push_back(item);
    }

    /// Takes an item off the list that has entered. The last item of the list takes its index. Drops a count of the item
    /// that is not the last.
    fn unlist(&mut self, item: &Item<T, H>) {
        let index = item.index.load(Ordering::Relaxed);
        drop(self.members.swap_remove_back(index as usize));
        if let Some(moved) = self.members.get(index as usize) {
            moved.index.store(index, Ordering::Relaxed);
        }
        shrink_if_empty(&mut self.members);
    }

    /// Adds items that are due.
    pub(super) fn add_due(&mut self, batch: Arc<DueBatch<T, H>>) {
        let batch = Arc::try_unwrap(batch).ok().expect("the stack had the only count of the batch");
        self.owed += batch.items.len();
        self.ready.extend(batch.items);
    }

    /// Takes an item off the list whose value was removed.
    pub(super) fn remove(&mut self, item: Arc<Item<T, H>>) {
        self.removed += 1;
        self.unlist(&item);
        self.discarded.push(item);
    }

    /// Takes the values of all items that are `ready` for it.
    pub(super) fn drain(&mut self, ready: impl Fn(&Item<T, H>) -> bool) -> Vec<(T, Arc<Item<T, H>>)> {
        let mut drained = Vec::new();
        for item in mem::take(&mut self.members) {
            match ready(&item).then(|| item.claim()).flatten() {
                Some(value) => drained.push((value, item)),
                // It stays listed, until its push returns, or until the thread that has removed it says so.
                None => self.enter(item),
            }
        }
        self.removed += drained.len();
        self.purge();
        drained
    }

    /// Discards items that were removed after they became due, once there are many.
    pub(super) fn purge(&mut self) {
        if self.removed <= FEW.max(self.ready.len()) {
            return;
        }
        self.removed = 0;
        for _ in 0..self.ready.len() {
            let Some(due) = self.ready.pop_front() else { break };
            if due.item.is_claimed() { self.discarded.push(due.item) } else { self.ready.push_back(due) }
        }
    }

    /// Takes the first value that is due, and returns it with its item.
    pub(super) fn pop(&mut self) -> Option<(T, Due<T, H>)> {
        while let Some(due) = self.ready.pop_front() {
            shrink_if_empty(&mut self.ready);
            if let Some(value) = due.item.claim() {
                self.unlist(&due.item);
                return Some((value, due));
            }
            self.discarded.push(due.item);
        }
        None
    }

    /// Has the consumer wait, which has looked in vain. It keeps its turn if it was not woken. Returns its former waiter.
    pub(super) fn wait(&mut self, consumer: &Consumer, waiter: Waiter) -> Option<Waiter> {
        if !self.waiting.contains_key(&consumer.ticket()) {
            self.last_ticket += 1;
            consumer.ticket.store(self.last_ticket, Ordering::Relaxed);
        }
        self.waiting.insert(consumer.ticket(), waiter)
    }

    /// Ends the wait of a consumer that has looked. Returns its waiter, unless it was woken or did not wait.
    pub(super) fn end_wait(&mut self, consumer: &Consumer) -> Option<Waiter> {
        let ticket = consumer.ticket();
        consumer.ticket.store(0, Ordering::Relaxed);
        self.waiting.remove(&ticket)
    }

    /// Ends the wait of a consumer that has a ticket, and will not look. If it was woken, it gives its wake-up back.
    /// Returns its waiter.
    pub(super) fn withdraw(&mut self, consumer: &Consumer) -> Option<Waiter> {
        let waiter = self.end_wait(consumer);
        self.owed += usize::from(waiter.is_none());
        waiter
    }

    /// Chooses the consumers to be woken: one for each value that became due, or all if the queue is `over`.
    pub(super) fn choose(&mut self, over: bool) -> Vec<Waiter> {
        // The caller may have taken one of these values.
        let owed = mem::take(&mut self.owed).min(self.ready.len());
        let most = if over { self.waiting.len() } else { owed };
        iter::from_fn(|| self.waiting.pop_first()).take(most).map(|(_, waiter)| waiter).collect()
    }
}

/// Gives the memory of a list back that was long.
fn shrink_if_empty<M>(list: &mut VecDeque<M>) {
    if list.is_empty() && list.capacity() > RETAINED {
        *list = VecDeque::new();
    }
}

#[cfg(all(test, not(loom)))]
#[path = "line_tests.rs"]
mod tests;
