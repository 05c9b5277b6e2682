//! The crate's `sync`, built from shuttle's primitives.

pub(crate) use crate::source::sync::portable::{Parker, UnsafeCell, lock, unpoisoned};
pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
pub(crate) use shuttle::sync::{Arc, Condvar, Mutex, MutexGuard};
pub(crate) use shuttle::thread_local as thread_static;

/// Does nothing, because shuttle models only sequential consistency.
pub(crate) fn access_plainly(_atomic: &AtomicU64) {}

/// A fence, as in the models.
pub(crate) fn fence_between_seq_cst() {
    fence(Ordering::SeqCst);
}

/// Replaces each limit by one that a scenario exceeds.
pub(crate) const fn limit(_most: usize) -> usize {
    2
}

/// Threads that park exactly: shuttle's own `park` may return spuriously, which would hide a missing `unpark`.
pub(crate) mod thread {
    use std::time::Duration;

    #[allow(unused_imports)]
    pub(crate) use shuttle::thread::{JoinHandle, ThreadId, spawn, yield_now};

    use super::{Arc, Condvar, Mutex};

    shuttle::thread_local! {
        static TOKEN: Arc<(Mutex<bool>, Condvar)> = Arc::new((Mutex::new(false), Condvar::new()));
    }

    #[derive(Clone, Debug)]
    pub(crate) struct Thread {
        id: ThreadId,
        token: Arc<(Mutex<bool>, Condvar)>,
    }

    impl Thread {
        pub(crate) fn id(&self) -> ThreadId {
            self.id
        }

        pub(crate) fn unpark(&self) {
            *self.token.0.lock().unwrap() = true;
            self.token.1.notify_one();
        }
    }

    pub(crate) fn current() -> Thread {
        Thread { id: shuttle::thread::current().id(), token: TOKEN.with(Arc::clone) }
    }

    pub(crate) fn park() {
        let token = TOKEN.with(Arc::clone);
        let mut is_there = token.0.lock().unwrap();
        while !std::mem::take(&mut *is_there) {
            is_there = token.1.wait(is_there).unwrap();
        }
    }

    pub(crate) fn park_timeout(_: Duration) {
        park();
    }
}

/// Returns a number of the calling thread.
pub(crate) fn thread_id() -> u64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    shuttle::thread_local! {
        static NUMBER: u64 = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
    NUMBER.with(|number| *number)
}
