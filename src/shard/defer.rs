//! Work that the driver does once a turn, after it has called the wakers.
//!
//! A turn may make a thousand values of one [`DelayQueue`](crate::DelayQueue) due. A wake-up costs the driver more than
//! the delivery of many values. So each value goes where consumers find it, and its queue is [deferred](defer). At the
//! end of the [`Turn`], the queue wakes consumers for all of them.

use std::cell::RefCell;
use std::mem;
use std::sync::Arc;

/// Work that may be deferred. To do it once counts for all times that it was deferred.
pub(crate) trait Deferred {
    /// Does the work. Must not panic.
    fn settle(&self);
}

thread_local! {
    /// What the calling thread's turn has deferred. `None` outside of a turn.
    static DEFERRED: RefCell<Option<Vec<Arc<dyn Deferred>>>> = const { RefCell::new(None) };
}

/// A turn of the calling thread. Its drop does what was deferred, also after a panic.
pub(super) struct Turn(());

impl Turn {
    pub(super) fn begin() -> Self {
        DEFERRED.set(Some(Vec::new()));
        Self(())
    }

    /// Ends the turn in the child of a fork: the deferred work belongs to the parent.
    pub(super) fn leave_to_parent(self) {
        mem::forget(DEFERRED.take());
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        DEFERRED.take().iter().flatten().for_each(|work| work.settle());
    }
}

/// Does the work at the end of the turn, or at once outside of a turn.
pub(crate) fn defer(work: &Arc<impl Deferred + 'static>) {
    let is_deferred = DEFERRED.with_borrow_mut(|deferred| {
        let Some(deferred) = deferred else { return false };
        let is_last = |last: &Arc<dyn Deferred>| Arc::as_ptr(last).addr() == Arc::as_ptr(work).addr();
        if !deferred.last().is_some_and(is_last) {
            deferred.push(work.clone());
        }
        true
    });
    if !is_deferred {
        work.settle();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    struct Work(AtomicU32);

    impl Deferred for Work {
        fn settle(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_turn_does_deferred_work_once_at_its_end() {
        let works = [(); 2].map(|()| Arc::new(Work(AtomicU32::new(0))));
        let done = || works.each_ref().map(|work| work.0.load(Ordering::Relaxed));
        let turn = Turn::begin();
        (0..10).for_each(|number| defer(&works[number / 5]));
        assert_eq!(done(), [0, 0]);
        drop(turn);
        assert_eq!(done(), [1, 1]);
        defer(&works[0]);
        assert_eq!(done(), [2, 1], "outside of a turn");
    }
}
