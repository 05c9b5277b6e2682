//! How a manual clock and a driver agree that there is nothing left to do at the present tick.
//!
//! The clock asks, and sleeps. The driver, when it finds nothing more to do, answers what was asked before it began to
//! look, and tells its next deadline. A shard has settled when its driver has answered, and no timer that it handed to
//! the executor is left to run. The clock need not ask a driver at rest that has nothing to do. Memory goes back in these
//! rounds, and as soon as the clock is moved.
//!
//! Between two questions the driver of a manual clock does nothing of its own accord but run what is due at once. So it
//! finds the timers where the program had put them before it moved the clock, and the same program gives the same run.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};

use crate::clock::NEVER;

#[derive(Default)]
pub(crate) struct Settling {
    /// Questions asked so far.
    asked: AtomicU64,
    /// Timers in the executor's hands, and one for the driver while it is in a round.
    under_way: AtomicU64,
    /// Timers that were ever handed to the executor.
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
    /// What had been begun when the clock last had an answer.
    begun: u64,
}

impl Settling {
    /// The driver begins a round. Returns the question that it answers.
    pub(crate) fn begin_round(&self) -> u64 {
        // Relaxed: the driver takes the intake, and releases this with it, before anybody can see the intake empty.
        self.under_way.fetch_add(1, Ordering::Relaxed);
        self.question()
    }

    /// The driver is about to hand over `timers`.
    pub(crate) fn begin(&self, timers: usize) {
        // Relaxed: in the middle of a round.
        self.begun.fetch_add(timers as u64, Ordering::Relaxed);
        self.under_way.fetch_add(timers as u64, Ordering::Relaxed);
    }

    /// A timer in the executor's hands has run, or has ended otherwise.
    pub(crate) fn end(&self) {
        // Release: what the callback did is done for whoever sees the count go down.
        if self.under_way.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.tell(|_| ());
        }
    }

    /// The round is over: the driver has found nothing to do before the tick `next`.
    pub(crate) fn end_round(&self, question: u64, next: u64) {
        self.tell(|answer| {
            answer.asked = question;
            answer.next = next;
            // Release: as above.
            self.under_way.fetch_sub(1, Ordering::Release);
        });
    }

    /// The driver ends.
    pub(crate) fn driver_ended(&self) {
        self.tell(|answer| answer.ended = true);
    }

    /// Poses a question, and returns it. The driver must be woken for it.
    pub(crate) fn pose(&self) -> u64 {
        // Release: the driver that sees the question sees the clock where it stands.
        self.asked.fetch_add(1, Ordering::Release) + 1
    }

    /// The last question.
    pub(crate) fn question(&self) -> u64 {
        // Acquire: pairs with `pose`.
        self.asked.load(Ordering::Acquire)
    }

    /// Returns when the shard has settled at the tick `now`: the tick to ask again at, and whether timers have been
    /// handed over since the last time. If there is something to do, asks the driver and `wake`s it.
    /// `is_quiet`: whether nothing has come in, nor memory is to be given back.
    pub(crate) fn ask(&self, now: u64, is_quiet: impl FnOnce() -> bool, wake: impl FnOnce()) -> (u64, bool) {
        // In this order: where the driver has taken the intake, it is seen to be in its round.
        let idle = is_quiet() && self.under_way.load(Ordering::Acquire) == 0;
        let mut answer = self.lock();
        if !(idle && answer.asked == self.question() && answer.next > now) {
            drop(answer);
            let question = self.pose();
            wake();
            answer = self.lock();
            while !(answer.ended || answer.asked >= question) || self.under_way.load(Ordering::Acquire) > 0 {
                answer = self.news.wait(answer).unwrap_or_else(|poisoned| poisoned.into_inner());
            }
        }
        let begun = self.begun.load(Ordering::Relaxed);
        let worked = begun != std::mem::replace(&mut answer.begun, begun);
        let next = if answer.ended { NEVER } else { answer.next };
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
