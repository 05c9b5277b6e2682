//! `Deliveries`: what a driver collects for delay queues in one turn.
//!
//! A turn may make a thousand values of one queue due. To hand a value over, and to wake a consumer, costs the driver more
//! than the rest. So the timer of a value adds it to the delivery of its queue, and the driver publishes all deliveries
//! at the end of the turn. No foreign code runs until all are published.

use std::any::Any;

/// The values of one queue. Its drop must not panic.
pub(crate) trait Delivery: Any + Send {
    /// Hands the values over. Returns whether the drop, after all other deliveries were published, calls foreign code.
    fn publish(&mut self) -> bool;

    /// Upcasts.
    fn as_any(&mut self) -> &mut dyn Any;
}

/// Number of deliveries, the latest, in which a value looks for that of its queue.
const SEARCHED: usize = 8;

/// The deliveries of one turn, each with the address of its queue, which the delivery keeps.
#[derive(Default)]
pub(crate) struct Deliveries(Vec<(usize, Box<dyn Delivery>)>);

impl Deliveries {
    /// Returns the delivery of the queue at this address, or else a new one.
    pub(crate) fn of<D: Delivery>(&mut self, queue: usize, new: impl FnOnce() -> D) -> &mut D {
        let all = &mut self.0;
        let first = all.len().saturating_sub(SEARCHED);
        let found = all[first..].iter().rposition(|&(of, _)| of == queue).map(|index| first + index);
        let index = found.unwrap_or(all.len());
        if found.is_none() {
            all.push((queue, Box::new(new())));
        }
        all[index].1.as_any().downcast_mut().expect("all deliveries of a queue are of one type")
    }

    /// Publishes all. Returns those whose drop calls foreign code.
    pub(crate) fn publish(mut self) -> Vec<Box<dyn Delivery>> {
        self.0.retain_mut(|(_, delivery)| delivery.publish());
        self.0.into_iter().map(|(_, delivery)| delivery).collect()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::mem;
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::sync::lock;

    type Done = Arc<Mutex<Vec<Vec<u32>>>>;

    /// Collects numbers of the same tens.
    struct Tens(Vec<u32>, Done);

    impl Delivery for Tens {
        fn publish(&mut self) -> bool {
            lock(&self.1).push(mem::take(&mut self.0));
            true
        }

        fn as_any(&mut self) -> &mut dyn Any {
            self
        }
    }

    impl Drop for Tens {
        fn drop(&mut self) {
            lock(&self.1).push(vec![]);
        }
    }

    #[test]
    fn a_turn_publishes_all_together_at_its_end_and_then_drops_them() {
        let done = Done::default();
        let mut deliveries = Deliveries::default();
        for number in [11, 21, 12, 22, 13] {
            deliveries.of(number as usize / 10, || Tens(Vec::new(), done.clone())).0.push(number);
        }
        assert!(lock(&done).is_empty());
        drop(deliveries.publish());
        assert_eq!(*lock(&done), [vec![11, 12, 13], vec![21, 22], vec![], vec![]]);
    }
}
