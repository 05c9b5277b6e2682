//! A consumer that blocks its thread: its waker unparks the thread.

use std::sync::Arc;
use std::task::{Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Instant;

use super::hand_over::{HandOver, Popped};
use super::line::Consumer;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Takes the first value that is due. Waits for one until the queue is over, or until `limit`.
pub(super) fn pop<T, H>(queue: &HandOver<T, H>, limit: Option<Instant>) -> Option<Popped<T>> {
    let consumer = Consumer::default();
    // What is there is taken without a waker.
    if let Poll::Ready(popped) = queue.poll(&consumer, None) {
        return popped;
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        if let Poll::Ready(popped) = queue.poll(&consumer, Some(&waker)) {
            return popped;
        }
        match limit.map(|limit| limit.saturating_duration_since(Instant::now())) {
            // A wake-up that came too late goes to another consumer.
            Some(left) if left.is_zero() => {
                queue.leave(&consumer);
                return None;
            }
            Some(left) => thread::park_timeout(left),
            None => thread::park(),
        }
    }
}
