//! How a manual clock and a driver agree that there is nothing left to do at the present tick.
//!
//! The clock asks, and sleeps. The driver, when it finds nothing more to do, answers what was asked before it began to
//! look, and tells its next deadline. A shard has settled when its driver has answered and no batch is under way.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};

#[derive(Default)]
pub(crate) struct Settling {
    /// Questions asked so far.
    asked: AtomicU64,
    /// Batches under way.
    batches: AtomicU64,
    /// Batches that have ever been made.
    begun: AtomicU64,
    answer: Mutex<Answer>,
    news: Condvar,
}

#[derive(Default)]
struct Answer {
    /// The last question answered.
    asked: u64,
    /// The tick to ask again at.
    next: u64,
    /// The driver has ended.
    ended: bool,
    /// The batches that had been begun when the clock last had an answer.
    begun: u64,
}

impl Settling {
    /// A batch is made.
    pub(crate) fn begin(&self) {
        // Relaxed: the driver counts before it hands over, and answers after, under the lock.
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.batches.fetch_add(1, Ordering::Relaxed);
    }

    /// A batch is done.
    pub(crate) fn end(&self) {
        // Release: what the callbacks did is done for whoever sees the batch gone. SeqCst, here and in `ask`: either
        // this sees that the clock has asked, or the clock sees that the batch is gone. No other clock ever asks.
        if self.batches.fetch_sub(1, Ordering::SeqCst) == 1 && self.asked.load(Ordering::SeqCst) > 0 {
            self.tell(|_| ());
        }
    }

    /// The question that the driver answers when it finds nothing to do from now on.
    pub(crate) fn question(&self) -> u64 {
        self.asked.load(Ordering::Acquire)
    }

    /// The driver has found nothing to do before the tick `next`.
    pub(crate) fn answer(&self, question: u64, next: u64) {
        self.tell(|answer| {
            answer.asked = question;
            answer.next = next;
        });
    }

    /// The driver ends.
    pub(crate) fn driver_ended(&self) {
        self.tell(|answer| answer.ended = true);
    }

    /// Asks, `wake`s the driver, and waits until the shard has settled. Returns the tick to ask again at, and whether a
    /// batch was begun since the last time.
    pub(crate) fn ask(&self, wake: impl FnOnce()) -> (u64, bool) {
        // Release: the driver that sees the question sees the clock where it stands.
        let question = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        wake();
        let mut answer = self.lock();
        while !(answer.ended || answer.asked >= question) || self.batches.load(Ordering::SeqCst) > 0 {
            answer = self.news.wait(answer).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        let begun = self.begun.load(Ordering::Relaxed);
        let worked = begun != std::mem::replace(&mut answer.begun, begun);
        let next = if answer.ended { u64::MAX } else { answer.next };
        (next, worked)
    }

    fn tell(&self, news: impl FnOnce(&mut Answer)) {
        news(&mut self.lock());
        self.news.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Answer> {
        self.answer.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
