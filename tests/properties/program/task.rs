//! The tasks that poll futures.

use std::cell::RefCell;
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};

use super::harness::Harness;

/// Reports to the harness that it was woken, unless the call that wakes it records this.
pub struct Task(Weak<Harness>);

thread_local! {
    /// The tasks that were woken by the call that is in progress on this thread.
    static WOKEN: RefCell<Option<Vec<Arc<Task>>>> = const { RefCell::new(None) };
}

impl Task {
    pub fn new(harness: &Arc<Harness>) -> Arc<Self> {
        Arc::new(Self(Arc::downgrade(harness)))
    }

    pub fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(self.clone())
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        let recorded = WOKEN.with_borrow_mut(|woken| woken.as_mut().map(|woken| woken.push(self.clone())).is_some());
        if !recorded && let Some(harness) = self.0.upgrade() {
            harness.on_wake(&self);
        }
    }
}

/// Calls `f`, which may wake only `task`, and at most once. Returns whether it did.
pub fn wakes_only<R>(task: Option<&Arc<Task>>, f: impl FnOnce() -> R) -> (R, bool) {
    WOKEN.set(Some(Vec::new()));
    let result = f();
    let woken = WOKEN.take().unwrap_or_default();
    assert!(woken.len() <= 1, "tasks were woken {} times", woken.len());
    assert!(woken.iter().all(|woken| task.is_some_and(|task| Arc::ptr_eq(woken, task))), "another task was woken");
    (result, !woken.is_empty())
}
