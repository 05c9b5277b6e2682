//! What the lock of a queue guards: which items are in the queue, which are due, and which consumers wait.
//!
//! # Which consumers are woken
//!
//! A consumer that finds nothing leaves a [`Waiter`] here, in turn. Each value that becomes due wakes the next consumer in
//! turn. A consumer that was woken may find that another has taken the value; then it waits again. If it goes away without
//! a look, it gives its wake-up back, and the next in turn is woken while a value is due: a wake-up is never lost with the
//! consumer that received it.

use std::collections::{BTreeMap, VecDeque};
use std::task::Waker;
use std::{iter, mem};

use super::due::Due;
use super::item::Item;
use crate::sync::thread::Thread;
use crate::sync::{Arc, AtomicU64, Ordering};

/// Capacity that an empty list keeps.
const RETAINED: usize = 1024;

/// The number of removed items from which it is worth to look for them among those that are due.
const FEW: usize = 32;

/// One that waits in a queue: a clone that is polled, or a thread that is blocked.
#[derive(Default)]
pub(crate) struct Consumer {
    /// Its place in the line; 0: none. Accessed under the queue's lock only, but for [`is_in_line`](Self::is_in_line).
    ticket: Ticket,
}

/// How a consumer that waits is woken.
pub(crate) enum Waiter {
    /// A task, by its waker.
    Task(Waker),
    /// A thread that is parked.
    Thread(Thread),
}

struct Ticket(AtomicU64);

impl Default for Ticket {
    fn default() -> Self {
        Self(AtomicU64::new(0))
    }
}

impl Consumer {
    /// Returns whether the consumer is to leave the line when it goes away. The caller must own the consumer.
    pub(super) fn is_in_line(&self) -> bool {
        self.ticket() != 0
    }

    fn ticket(&self) -> u64 {
        // Relaxed, here and below: under the lock, or by the owner.
        self.ticket.0.load(Ordering::Relaxed)
    }

    fn set_ticket(&self, ticket: u64) {
        self.ticket.0.store(ticket, Ordering::Relaxed);
    }
}

pub(super) struct Line<T, H> {
    members: Members<Arc<Item<T, H>>>,
    /// Items that are due, in order, with those that were removed since.
    ready: VecDeque<Due<T, H>>,
    /// Upper bound of the number of removed items in `ready`.
    removed: usize,
    /// The consumers that wait, by their tickets.
    waiting: BTreeMap<u64, Waiter>,
    last_ticket: u64,
    /// Number of wake-ups for which no consumer was chosen yet.
    owed: usize,
}

impl<T, H> Line<T, H> {
    pub(super) fn new() -> Self {
        Self {
            members: Members::new(),
            ready: VecDeque::new(),
            removed: 0,
            waiting: BTreeMap::new(),
            last_ticket: 0,
            owed: 0,
        }
    }

    /// Lists an item that has entered the queue.
    pub(super) fn enter(&mut self, item: Arc<Item<T, H>>) {
        let member = self.members.vacant();
        item.set_member(member);
        self.members.insert(member, item);
    }

    /// Adds items that are due.
    pub(super) fn add_due(&mut self, items: Vec<Due<T, H>>) {
        self.owed += items.len();
        self.ready.extend(items);
    }

    /// Takes an item off the list that has entered, and whose value was removed.
    pub(super) fn leave(&mut self, item: &Item<T, H>) -> Option<Arc<Item<T, H>>> {
        self.removed += 1;
        self.members.remove(item.member())
    }

    /// Takes items that were removed after they became due out of the way, once there are many.
    pub(super) fn purge(&mut self, mut purged: impl FnMut(Arc<Item<T, H>>)) {
        if self.removed <= FEW.max(self.ready.len()) {
            return;
        }
        self.removed = 0;
        for _ in 0..self.ready.len() {
            let Some(due) = self.ready.pop_front() else { break };
            if due.item.is_claimed() { purged(due.item) } else { self.ready.push_back(due) }
        }
    }

    /// Takes the first value that is due, and returns it with its item. `removed` receives items that were removed.
    pub(super) fn pop(&mut self, mut removed: impl FnMut(Arc<Item<T, H>>)) -> Option<(T, Due<T, H>)> {
        while let Some(due) = self.ready.pop_front() {
            if self.ready.is_empty() && self.ready.capacity() > RETAINED {
                self.ready = VecDeque::new();
            }
            if let Some(value) = due.item.claim() {
                // The list has a count of its own.
                drop(self.members.remove(due.item.member()));
                return Some((value, due));
            }
            removed(due.item);
        }
        None
    }

    /// Takes all items off the list.
    pub(super) fn clear(&mut self) -> impl Iterator<Item = Arc<Item<T, H>>> + use<T, H> {
        mem::replace(&mut self.members, Members::new()).slots.into_iter().flatten()
    }

    /// Notes that the consumer looks for a value. Returns whether it was woken.
    pub(super) fn look(&mut self, consumer: &Consumer) -> bool {
        let ticket = consumer.ticket();
        let woken = ticket != 0 && !self.waiting.contains_key(&ticket);
        if woken {
            consumer.set_ticket(0);
        }
        woken
    }

    /// Has the consumer wait. It keeps its turn if it waits already. Returns what waited for it before.
    pub(super) fn wait(&mut self, consumer: &Consumer, waiter: Waiter) -> Option<Waiter> {
        if consumer.ticket() == 0 {
            self.last_ticket += 1;
            consumer.set_ticket(self.last_ticket);
        }
        self.waiting.insert(consumer.ticket(), waiter)
    }

    /// Ends the wait of a consumer that has looked. Returns what waited for it before.
    pub(super) fn end_wait(&mut self, consumer: &Consumer) -> Option<Waiter> {
        let ticket = consumer.ticket();
        consumer.set_ticket(0);
        self.waiting.remove(&ticket)
    }

    /// Takes a consumer out of the line that goes away. If it was woken, it gives its wake-up back. Returns what
    /// waited for it.
    pub(super) fn go(&mut self, consumer: &Consumer) -> Option<Waiter> {
        self.owed += usize::from(self.look(consumer));
        self.end_wait(consumer)
    }

    /// Chooses the consumers to be woken: one for each value that became due, or all if the queue is `over`.
    pub(super) fn choose(&mut self, over: bool) -> Vec<Waiter> {
        // The caller may have taken one of these values.
        let owed = mem::take(&mut self.owed).min(self.ready.len());
        let most = if over { self.waiting.len() } else { owed };
        iter::from_fn(|| self.waiting.pop_first()).take(most).map(|(_, waiter)| waiter).collect()
    }

    /// Returns the number of consumers that wait.
    pub(super) fn waiting(&self) -> u64 {
        self.waiting.len() as u64
    }
}

/// A list in which each member knows its place.
struct Members<M> {
    slots: Vec<Option<M>>,
    vacant: Vec<u32>,
}

impl<M> Members<M> {
    fn new() -> Self {
        Self { slots: Vec::new(), vacant: Vec::new() }
    }

    /// Returns a place without a member.
    fn vacant(&mut self) -> u32 {
        self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(None);
            u32::try_from(self.slots.len() - 1).expect("fewer values than entries")
        })
    }

    fn insert(&mut self, place: u32, member: M) {
        self.slots[place as usize] = Some(member);
    }

    fn remove(&mut self, place: u32) -> Option<M> {
        let member = self.slots.get_mut(place as usize)?.take()?;
        self.vacant.push(place);
        if self.vacant.len() == self.slots.len() && self.slots.len() > RETAINED {
            *self = Self::new();
        }
        Some(member)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn waiter() -> Waiter {
        Waiter::Task(Waker::noop().clone())
    }

    #[test]
    fn members_find_their_place_again_and_memory_comes_back() {
        let mut members = Members::new();
        for round in 0..2 {
            for number in 0..2000_u32 {
                let place = members.vacant();
                members.insert(place, number);
                assert_eq!(place, number, "round {round}");
            }
            let (removed, twice) = (members.remove(7), members.remove(7));
            assert_eq!((removed, twice, members.vacant()), (Some(7), None, 7));
            members.insert(7, 7);
            assert!((0..2000).all(|place| members.remove(place) == Some(place)));
            assert!(members.slots.capacity() == 0 && members.vacant.capacity() == 0);
        }
    }

    #[test]
    fn one_consumer_is_woken_for_each_value_in_turn() {
        let mut line: Line<u32, ()> = Line::new();
        let consumers = [(); 3].map(|()| Consumer::default());
        for consumer in &consumers {
            assert!(line.wait(consumer, waiter()).is_none());
        }
        assert!(line.choose(false).is_empty(), "nothing is due");
        let item = Arc::new(Item::new(5));
        line.enter(item.clone());
        line.add_due(vec![Due { item, tick: 0 }]);
        assert_eq!((line.choose(false).len(), line.choose(false).len(), line.waiting()), (1, 0, 2));
        assert!(line.go(&consumers[0]).is_none() && !consumers[0].is_in_line());
        assert_eq!((line.choose(false).len(), line.waiting()), (1, 1), "the wake-up is passed on");
        assert!(line.look(&consumers[1]) && !line.look(&consumers[1]));
        assert_eq!(line.pop(|_| ()).map(|(value, _)| value), Some(5));
        assert_eq!((line.choose(false).len(), line.choose(true).len(), line.waiting()), (0, 1, 0));
    }

    #[test]
    fn a_consumer_that_ignores_its_wake_up_keeps_none_from_the_others() {
        let mut line: Line<u32, ()> = Line::new();
        let consumers = [(); 2].map(|()| Consumer::default());
        for (consumer, number) in consumers.iter().zip(0..) {
            line.wait(consumer, waiter());
            let item = Arc::new(Item::new(number));
            line.enter(item.clone());
            line.add_due(vec![Due { item, tick: 0 }]);
            assert_eq!((line.choose(false).len(), line.waiting()), (1, 0));
        }
        assert!(line.look(&consumers[1]));
        assert!([0, 1].iter().all(|&number| line.pop(|_| ()).is_some_and(|(value, _)| value == number)));
        line.wait(&consumers[1], waiter());
        let item = Arc::new(Item::new(2));
        line.enter(item.clone());
        line.add_due(vec![Due { item, tick: 0 }]);
        assert_eq!(line.choose(false).len(), 1);
    }

    #[test]
    fn removed_items_that_were_due_are_taken_out_of_the_way() {
        let mut line: Line<usize, ()> = Line::new();
        let items: Vec<_> = (0..100).map(|number| Arc::new(Item::new(number))).collect();
        for item in &items {
            line.enter(item.clone());
            line.add_due(vec![Due { item: item.clone(), tick: 0 }]);
        }
        for item in items.iter().step_by(2) {
            assert!(item.claim().is_some() && line.leave(item).is_some());
        }
        for _ in 0..100 {
            line.removed += 1;
            line.purge(drop);
        }
        assert_eq!(line.ready.len(), 50);
        let popped: Vec<_> = std::iter::from_fn(|| line.pop(|_| panic!("it was purged"))).map(|(v, _)| v).collect();
        assert!(popped.iter().copied().eq((0..100).filter(|number| number % 2 == 1)), "{popped:?}");
    }
}
