//! What a driver defers to the end of its turn, to do it once for many timers.
//!
//! A turn may make a thousand values of one [`DelayQueue`](crate::DelayQueue) due. A push to the queue and a wake-up
//! cost the driver more than the rest of the delivery. So a [`Turn`] collects the values of each queue, and delivers
//! them together.

use std::any::Any;
use std::cell::RefCell;
use std::mem;

/// What is collected in a turn. Its drop does the work, for all parts that were added. The drop must not panic.
pub(crate) trait Deferred: Any {
    /// What one timer adds.
    type Part;

    /// Returns a value that accepts this part, and to which nothing is added yet.
    fn new(part: &Self::Part) -> Self;

    /// Returns whether the part may be added.
    fn accepts(&self, part: &Self::Part) -> bool;

    fn add(&mut self, part: Self::Part);
}

thread_local! {
    /// What the calling thread's turn has deferred. `None` outside of a turn.
    static DEFERRED: RefCell<Option<Vec<Box<dyn Any>>>> = const { RefCell::new(None) };
}

/// Number of deferred values, the latest, in which a new part looks for its place.
const SEARCHED: usize = 8;

/// A turn of the calling thread. Its drop does what was deferred, also after a panic.
pub(super) struct Turn(());

impl Turn {
    pub(super) fn begin() -> Self {
        DEFERRED.set(Some(Vec::new()));
        Self(())
    }

    /// Ends the turn in the child of a fork: what was deferred belongs to the parent.
    pub(super) fn leave_to_parent(self) {
        mem::forget(DEFERRED.take());
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        drop(DEFERRED.take());
    }
}

/// Does the work of `part` at the end of the turn, or at once outside of a turn.
pub(crate) fn defer<D: Deferred>(part: D::Part) {
    let started = |part| {
        let mut work = D::new(&part);
        work.add(part);
        work
    };
    let part = DEFERRED.with_borrow_mut(|deferred| {
        let Some(deferred) = deferred else { return Some(part) };
        let mut latest = deferred.iter_mut().rev().take(SEARCHED).filter_map(|work| work.downcast_mut::<D>());
        match latest.find(|work| work.accepts(&part)) {
            Some(work) => work.add(part),
            None => deferred.push(Box::new(started(part))),
        }
        None
    });
    drop(part.map(started));
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    type Done = Rc<RefCell<Vec<Vec<u32>>>>;

    /// Collects numbers of the same tens.
    struct Tens(Vec<u32>, Done);

    impl Deferred for Tens {
        type Part = (u32, Done);

        fn new((_, done): &Self::Part) -> Self {
            Self(Vec::new(), done.clone())
        }

        fn accepts(&self, (number, _): &Self::Part) -> bool {
            self.0.first().is_some_and(|first| first / 10 == number / 10)
        }

        fn add(&mut self, (number, _): Self::Part) {
            self.0.push(number);
        }
    }

    impl Drop for Tens {
        fn drop(&mut self) {
            self.1.borrow_mut().push(mem::take(&mut self.0));
        }
    }

    #[test]
    fn a_turn_does_the_work_of_its_parts_together_at_its_end() {
        let done = Done::default();
        let turn = Turn::begin();
        [11, 21, 12, 22, 13].into_iter().for_each(|number| defer::<Tens>((number, done.clone())));
        assert!(done.borrow().is_empty());
        drop(turn);
        assert_eq!(done.take(), [vec![11, 12, 13], vec![21, 22]]);
        (14..16).for_each(|number| defer::<Tens>((number, done.clone())));
        assert_eq!(done.take(), [[14], [15]], "outside of a turn, at once");
    }
}
