//! The timer's part in a value: it makes the value due.

use std::any::Any;
use std::mem;

use super::hand_over::HandOver;
use super::item::{DueItem, Item};
use crate::engine::deliveries::{Deliveries, Delivery};
use crate::sync::Arc;

/// Makes an item due, or is dropped before. Either ends the item's timer.
pub(crate) struct Expiry<T, H> {
    queue: Arc<HandOver<T, H>>,
    /// `None`: it is delivered.
    item: Option<Arc<Item<T, H>>>,
}

/// The items of one queue that a driver makes due in one turn. Its drop wakes tasks.
struct ItemDelivery<T, H> {
    queue: Arc<HandOver<T, H>>,
    /// Items whose timers count as pending until the items are handed over.
    items: Vec<DueItem<T, H>>,
    /// Number of tasks to be woken.
    tasks: usize,
}

impl<T, H> Expiry<T, H> {
    /// Begins to add a value to a queue. The caller schedules a timer for the expiry, and then
    /// [lists](HandOver::list) the item. Returns the value if the queue is closed.
    pub(crate) fn enter(queue: &Arc<HandOver<T, H>>, value: T) -> Result<(Arc<Item<T, H>>, Self), T> {
        if !queue.enter() {
            return Err(value);
        }
        let item = Arc::new(Item::new(value));
        Ok((item.clone(), Self { queue: queue.clone(), item: Some(item) }))
    }
}

impl<T: Send + 'static, H: Send + Sync + 'static> Expiry<T, H> {
    /// Makes the item due, with the others of the turn: its deadline has come, at `tick`.
    pub(crate) fn deliver(mut self, tick: u64, deliveries: &mut Deliveries) {
        let new = || ItemDelivery { queue: self.queue.clone(), items: Vec::new(), tasks: 0 };
        let delivery = deliveries.of(Arc::as_ptr(&self.queue).addr(), new);
        delivery.items.extend(self.item.take().map(|item| (item, tick)));
    }
}

impl<T, H> Drop for Expiry<T, H> {
    fn drop(&mut self) {
        if self.item.is_some() {
            self.queue.end_timer();
        }
    }
}

impl<T: Send + 'static, H: Send + Sync + 'static> Delivery for ItemDelivery<T, H> {
    /// Hands the items over, in order, and unparks threads that wait for them. Calls no foreign code.
    fn publish(&mut self) -> bool {
        self.tasks = self.queue.add_due(mem::take(&mut self.items));
        self.tasks > 0
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

impl<T, H> Drop for ItemDelivery<T, H> {
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
        let mut deliveries = Deliveries::default();
        for (value, queue) in [(1, 0), (4, 1), (2, 0), (3, 0)] {
            Expiry::enter(&queues[queue], value).unwrap().1.deliver(value.into(), &mut deliveries);
        }
        let pop = |queue: usize| match queues[queue].poll(&Consumer::default(), None) {
            Poll::Ready(Some((value, (_, tick)))) => Some((value, tick)),
            _ => None,
        };
        assert_eq!(pop(0), None, "not yet");
        deliveries.publish();
        assert_eq!([(); 4].map(|()| pop(0)), [Some((1, 1)), Some((2, 2)), Some((3, 3)), None]);
        assert_eq!([(); 2].map(|()| pop(1)), [Some((4, 4)), None]);
    }
}
