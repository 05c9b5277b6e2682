//! A consumer that blocks its thread.

use std::task::Poll;
use std::thread;
use std::time::Instant;

use super::hand_over::{HandOver, Popped};
use super::line::{Consumer, Waiter};

/// Takes the first value that is due. Waits for one until the queue is over, or until `limit`.
pub(super) fn pop<T, H>(queue: &HandOver<T, H>, limit: Option<Instant>) -> Option<Popped<T>> {
    let consumer = Consumer::default();
    // What is there is taken without a wait.
    if let Poll::Ready(popped) = queue.poll(&consumer, None) {
        return popped;
    }
    loop {
        if let Poll::Ready(popped) = queue.poll(&consumer, Some(Waiter::Thread(thread::current()))) {
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
