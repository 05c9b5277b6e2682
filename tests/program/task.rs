//! The tasks that poll futures.

use std::cell::RefCell;
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};

use super::stage::Stage;

/// Tells the stage when it is woken, unless this is noted by the call that wakes it.
pub struct Task(Weak<Stage>);

thread_local! {
    /// The tasks that the call that this thread is in the middle of has woken.
    static WOKEN: RefCell<Option<Vec<Arc<Task>>>> = const { RefCell::new(None) };
}

impl Task {
    pub fn new(stage: &Arc<Stage>) -> Arc<Self> {
        Arc::new(Self(Arc::downgrade(stage)))
    }

    pub fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(self.clone())
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        let noted = WOKEN.with_borrow_mut(|woken| woken.as_mut().map(|woken| woken.push(self.clone())).is_some());
        if !noted && let Some(stage) = self.0.upgrade() {
            stage.woken(&self);
        }
    }
}

/// Calls `f`, which must wake none but `task`, and that once. Returns whether it was woken.
pub fn wakes_none_but<R>(task: Option<&Arc<Task>>, f: impl FnOnce() -> R) -> (R, bool) {
    WOKEN.set(Some(Vec::new()));
    let result = f();
    let woken = WOKEN.take().unwrap_or_default();
    assert!(woken.len() <= 1, "a task is woken {} times", woken.len());
    assert!(woken.iter().all(|woken| task.is_some_and(|task| Arc::ptr_eq(woken, task))), "another task is woken");
    (result, !woken.is_empty())
}
