//! The timer's part in a value: it makes the value due.

use std::mem;

use super::hand_over::HandOver;
use super::item::{Due, Item};
use crate::sync::Arc;

/// Makes an item due, or is dropped before. Either ends the item's timer.
pub(crate) struct Expiry<T, H> {
    queue: Arc<HandOver<T, H>>,
    /// `None`: it is delivered.
    item: Option<Arc<Item<T, H>>>,
}

/// The items of one queue that a driver makes due together. Its drop wakes consumers.
pub(crate) struct Delivery<T, H> {
    queue: Arc<HandOver<T, H>>,
    /// Items whose timers count as pending until the items are handed over.
    items: Vec<Due<T, H>>,
    /// Number of tasks to be woken.
    tasks: usize,
}

impl<T, H> Expiry<T, H> {
    /// Adds a value to a queue. The caller schedules a timer for the expiry. Returns the value if the queue is closed.
    pub(crate) fn enter(queue: &Arc<HandOver<T, H>>, value: T) -> Result<(Arc<Item<T, H>>, Self), T> {
        let item = Arc::new(Item::new(value));
        if queue.enter(item.clone()) {
            return Ok((item.clone(), Self { queue: queue.clone(), item: Some(item) }));
        }
        Err(item.claim().expect("no other thread has the item"))
    }

    /// Makes the item due: its deadline has come, at `tick`. The delivery must [accept](Delivery::accepts) this expiry.
    pub(crate) fn deliver(mut self, tick: u64, delivery: &mut Delivery<T, H>) {
        delivery.items.extend(self.item.take().map(|item| Due { item, tick }));
    }
}

impl<T, H> Drop for Expiry<T, H> {
    fn drop(&mut self) {
        if self.item.is_some() {
            self.queue.end_timer();
        }
    }
}

impl<T, H> Delivery<T, H> {
    /// Returns a delivery without items, for the queue of `expiry`.
    pub(crate) fn new(expiry: &Expiry<T, H>) -> Self {
        Self { queue: expiry.queue.clone(), items: Vec::new(), tasks: 0 }
    }

    /// Returns whether the delivery is for the queue of `expiry`.
    pub(crate) fn accepts(&self, expiry: &Expiry<T, H>) -> bool {
        Arc::ptr_eq(&self.queue, &expiry.queue)
    }

    /// Hands the items over, in order, and unparks threads that wait for them. Calls no foreign code. Returns whether the
    /// drop wakes tasks.
    pub(crate) fn publish(&mut self) -> bool {
        self.tasks = self.queue.add_due(mem::take(&mut self.items));
        self.tasks > 0
    }
}

impl<T, H> Drop for Delivery<T, H> {
    fn drop(&mut self) {
        self.queue.wake(self.tasks);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::task::Poll;

    use super::super::line::Consumer;
    use super::*;

    #[test]
    fn items_that_are_delivered_together_come_out_in_order() {
        let queues: [Arc<HandOver<u32, ()>>; 2] = [(); 2].map(|()| Arc::new(HandOver::new(|act, waker| act(waker))));
        let expiries = [1, 2, 3].map(|value| Expiry::enter(&queues[0], value).unwrap().1);
        let mut delivery = Delivery::new(&expiries[0]);
        assert!(!delivery.accepts(&Expiry::enter(&queues[1], 4).unwrap().1));
        for (expiry, tick) in expiries.into_iter().zip(7..) {
            assert!(delivery.accepts(&expiry));
            expiry.deliver(tick, &mut delivery);
        }
        let pop = || match queues[0].poll(&Consumer::default(), None) {
            Poll::Ready(Some((value, Due { tick, .. }))) => Some((value, tick)),
            _ => None,
        };
        assert_eq!(pop(), None, "not yet");
        delivery.publish();
        assert_eq!([(); 4].map(|()| pop()), [Some((1, 7)), Some((2, 8)), Some((3, 9)), None]);
    }
}
