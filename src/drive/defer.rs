//! What a driver defers to the end of its turn, to do it once for many timers.
//!
//! A turn may make a thousand values of one [`DelayQueue`](crate::DelayQueue) due. A push to the queue and a wake-up
//! cost the driver more than the rest of the delivery. So a [`TurnGuard`] collects the values of each queue, and delivers
//! them together. No foreign code runs until all are delivered.

use std::any::Any;
use std::cell::RefCell;
use std::mem::ManuallyDrop;

/// What is collected in a turn. Its drop must not panic.
pub(crate) trait Deferred: Any + Send {
    /// Makes what was collected known to other threads. Returns whether the drop, after all else was published, calls
    /// foreign code.
    fn publish(&mut self) -> bool;

    /// Upcasts.
    fn as_any(&mut self) -> &mut dyn Any;
}

/// What a turn has deferred. `None` outside of a turn.
type Turn = Option<Vec<Box<dyn Deferred>>>;

thread_local! {
    /// The calling thread's turn. `ManuallyDrop`: a program's loop may drive in the destructor of a thread-local value.
    static DEFERRED: RefCell<ManuallyDrop<Turn>> = const { RefCell::new(ManuallyDrop::new(None)) };
}

/// Number of deferred values, the latest, in which a new part looks for its place.
const SEARCHED: usize = 8;

/// A turn of the calling thread. Its drop does what was deferred, also after a panic.
pub(super) struct TurnGuard(());

impl TurnGuard {
    /// Begins a turn, which must not run foreign code.
    pub(super) fn begin() -> Self {
        DEFERRED.set(ManuallyDrop::new(Some(Vec::new())));
        Self(())
    }

    /// Ends the turn, and publishes what was deferred. Returns that whose drop calls foreign code.
    pub(super) fn publish(self) -> Vec<Box<dyn Deferred>> {
        publish_deferred()
    }
}

impl Drop for TurnGuard {
    fn drop(&mut self) {
        // Nothing is left, except after a panic.
        drop(publish_deferred());
    }
}

fn publish_deferred() -> Vec<Box<dyn Deferred>> {
    let mut deferred = ManuallyDrop::into_inner(DEFERRED.take()).unwrap_or_default();
    deferred.retain_mut(|work| work.publish());
    deferred
}

/// Adds `part` to the work that accepts it, or to new work. Outside of a turn, that is done at once.
pub(crate) fn defer<D: Deferred, P>(
    part: P,
    new: impl Fn(&P) -> D,
    accepts: impl Fn(&D, &P) -> bool,
    add: impl Fn(&mut D, P),
) {
    let started = |part| {
        let mut work = new(&part);
        add(&mut work, part);
        work
    };
    let part = DEFERRED.with_borrow_mut(|deferred| {
        let Some(deferred) = &mut **deferred else { return Some(part) };
        let latest = deferred.iter_mut().rev().take(SEARCHED);
        let mut latest = latest.filter_map(|work| work.as_any().downcast_mut::<D>());
        match latest.find(|work| accepts(work, &part)) {
            Some(work) => add(work, part),
            None => deferred.push(Box::new(started(part))),
        }
        None
    });
    if let Some(mut work) = part.map(started) {
        work.publish();
    }
}

#[cfg(test)]
mod tests {
    use std::mem;
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::sync::lock;

    type Done = Arc<Mutex<Vec<Vec<u32>>>>;

    /// Collects numbers of the same tens.
    struct Tens(Vec<u32>, Done);

    impl Deferred for Tens {
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

    fn defer_number(number: u32, done: &Done) {
        let new = |_: &u32| Tens(Vec::new(), done.clone());
        let accepts = |tens: &Tens, number: &u32| tens.0.first().is_some_and(|first| first / 10 == number / 10);
        defer(number, new, accepts, |tens, number| tens.0.push(number));
    }

    #[test]
    fn a_turn_publishes_all_parts_together_at_its_end_and_then_drops_them() {
        let done = Done::default();
        let turn = TurnGuard::begin();
        [11, 21, 12, 22, 13].into_iter().for_each(|number| defer_number(number, &done));
        assert!(lock(&done).is_empty());
        drop(turn);
        assert_eq!(mem::take(&mut *lock(&done)), [vec![11, 12, 13], vec![21, 22], vec![], vec![]]);
        (14..16).for_each(|number| defer_number(number, &done));
        assert_eq!(mem::take(&mut *lock(&done)), [vec![14], vec![], vec![15], vec![]], "outside of a turn, at once");
    }
}
