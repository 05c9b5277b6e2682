//! The deputy: a thread that succeeds a leader that is stuck in foreign code.
//!
//! The leader calls wakers. One that blocks should not delay folded shards for long, so another own thread must lead on:
//! its *deputy*. The deputy looks every [`INTERVAL`]. If the leader has been inside the same foreign code since the last
//! look, it is stuck, and the deputy succeeds it. If the leader has called no waker since then, the deputy resigns, and
//! sleeps as before.
//!
//! One [word](super::leader) says who leads, who is the deputy, and the *phase*: how often a leader has begun or ended to
//! call foreign code. It is odd while the leader is inside. Each step changes the word at once:
//!
//! | step                                            | if                                  | leader      | deputy       | phase |
//! |-------------------------------------------------|-------------------------------------|-------------|--------------|-------|
//! | the leader [enters](Alarms::enter) foreign code |                                     |             |              | + 1   |
//! | it [leaves](Alarms::leave) it                   | it still leads                      |             |              | + 1   |
//! | the deputy enters foreign code                  |                                     |             | none         |       |
//! | a thread that enters [appoints](Alarms::appoint) another one, which sleeps | one is lacking |       | that         |       |
//! | a thread [looks](Alarms::look)                  | one is lacking                      |             | this thread  |       |
//! | the deputy succeeds                             | the word is as at its last look, and the phase is odd | this thread | none | + 1 |
//! | it resigns                                      | the same, and the phase is even     |             | none         |       |
//!
//! A deputy is *lacking* if the leader is inside and there is none. An own thread looks before each sleep. So exactly one
//! thread leads a timer with a pool, and while it is inside, there is a deputy that is not, unless all threads are:
//!
//! - A thread that falls asleep has a fence between its alarm's word and the look, and one that appoints has a fence
//!   between the offices and the look at who sleeps. So either the first sees that a deputy is lacking, or the second sees
//!   that it sleeps.
//! - An appointment ends a sleep, by the [alarm](super::alarm). If the thread was awake, it may be inside foreign code
//!   already, and the appointment is taken back. If it was asleep, it sees its office before it enters any.
//!
//! Loom models `deputy` and `roles` check this.
//!
//! Rejected: to let the pool call wakers. No deputy would be needed, but sleeps would wait while callbacks block all
//! workers. The hand-over costs an eighth of the CPU time of 10^5 sleeps a second: see "Tried and reverted" in
//! `docs/benchmarks/notebook.md`.

use std::time::{Duration, Instant};

use super::alarm::{AWAKE, Alarms};
use super::leader::{NONE, Offices};
use crate::sync::{Ordering, fence};

/// Time between two looks. A waker that blocks delays other shards for one to two intervals.
pub(crate) const INTERVAL: Duration = Duration::from_millis(4);

/// What the deputy saw at its last look, and when that was.
pub(crate) type Seen = Option<(Offices, Instant)>;

impl Alarms {
    /// The thread of this number is about to call foreign code. So another one looks after the leader, if that is inside
    /// foreign code.
    pub(crate) fn enter(&self, number: u32) {
        self.leader.update(|seen| if seen.leader == number { seen.next_phase() } else { seen.without(number) });
        self.appoint();
    }

    /// The thread of this number has called foreign code. Returns whether it leads.
    pub(crate) fn leave(&self, number: u32) -> bool {
        let outside = |seen: Offices| if seen.leader == number { seen.next_phase() } else { seen };
        self.leader.update(outside).0.leader == number
    }

    /// Appoints a thread that sleeps, if no thread looks after a leader that is inside foreign code.
    fn appoint(&self) {
        loop {
            // SeqCst: orders the word, which lacks a deputy, before the look at who sleeps. Pairs with the fence of
            // `Alarm::sleep`. Loom model `deputy`.
            fence(Ordering::SeqCst);
            let seen = self.leader.load();
            let sleeps = |&other: &u32| other != seen.leader && self.get(other).is_asleep();
            let mut others = if seen.lacks_deputy() { 0..self.len() } else { 0..0 };
            let Some(other) = others.find(sleeps) else { return };
            if self.leader.change(seen, Offices { deputy: other, ..seen }) {
                if self.get(other).wake_by(AWAKE) {
                    return;
                }
                // It is awake, and may be inside foreign code already.
                self.leader.update(|seen| seen.without(other));
            }
        }
    }

    /// Returns whether the thread of this number must look before it sleeps: it was appointed after its last look, which
    /// returned `next`, or no other thread is.
    pub(crate) fn must_look(&self, number: u32, next: Option<Duration>) -> bool {
        next.is_none() && self.leader.load().with(number).deputy == number
    }

    /// Looks after the leader, if the calling thread, of this number, is the deputy or no other is. Calls `succeeded` if it
    /// leads from now on. Returns the time until the next look.
    pub(crate) fn look(
        &self,
        number: u32,
        seen: &mut Seen,
        now: Instant,
        succeeded: impl FnOnce(),
    ) -> Option<Duration> {
        let (_, offices) = self.leader.update(|seen| seen.with(number));
        if offices.deputy != number {
            return None;
        }
        let Some((_, since)) = seen.filter(|&(last, _)| last == offices) else {
            *seen = Some((offices, now));
            return Some(INTERVAL);
        };
        let left = INTERVAL.saturating_sub(now - since);
        if !left.is_zero() {
            return Some(left);
        }
        let resigned = offices.without(number);
        let is_stuck = offices.is_inside();
        let new = if is_stuck { Offices { leader: number, ..resigned.next_phase() } } else { resigned };
        if !self.leader.change(offices, new) {
            return Some(INTERVAL);
        }
        if is_stuck {
            succeeded();
        }
        None
    }
}

impl Offices {
    fn lacks_deputy(self) -> bool {
        self.is_inside() && self.deputy == NONE
    }

    /// Makes the thread of this number no deputy.
    fn without(self, number: u32) -> Self {
        if self.deputy == number { Self { deputy: NONE, ..self } } else { self }
    }

    /// Makes the thread of this number, which is not inside foreign code, the deputy if one is lacking.
    fn with(self, number: u32) -> Self {
        if self.lacks_deputy() { Self { deputy: number, ..self } } else { self }
    }
}
