//! The deputy: a thread that succeeds a leader that is stuck in foreign code.
//!
//! The leader calls wakers. One that blocks should not delay folded shards for long, so another own thread must lead on.
//! Before the leader calls wakers, it appoints a *deputy*, unless there is one. The deputy looks every [`INTERVAL`]. If the
//! leader has been inside the same foreign code since the last look, it is stuck, and the deputy succeeds it. If the leader
//! has called no waker since then, the deputy resigns, and sleeps as before.
//!
//! One [word](super::leader) says who leads, who is the deputy, and the *phase*: how often a leader has begun or ended to
//! call foreign code. It is odd while the leader is inside. Each step changes the word at once:
//!
//! | step                              | if                                           | leader | deputy                | phase |
//! |-----------------------------------|----------------------------------------------|--------|-----------------------|-------|
//! | the leader [enters](Alarms::enter) foreign code |                                |        | another thread, if none is | + 1 |
//! | it [leaves](Alarms::leave) it     | it still leads                               |        |                       | + 1   |
//! | the same                          | it was succeeded                             |        | this thread           |       |
//! | the deputy [succeeds](Alarms::look) | the word is as at its last look, and the phase is odd | this thread | none      | + 1   |
//! | it [resigns](Alarms::look)        | the same, and the phase is even              |        | none                  |       |
//! | it [delegates](Alarms::delegate), to call wakers itself | there is a third thread |       | that                  |       |
//!
//! So exactly one thread leads a timer with a pool, and while it is inside there is a deputy, if there is another thread. A
//! leader that comes back finds out whether it was succeeded. It is the deputy then, because its successor may have
//! appointed a thread that is stuck.
//!
//! An appointment is a wake-up of an [alarm](super::alarm): the leader writes the word, and then lowers `until`. A thread
//! reads the word in its second look before it sleeps, so it sleeps only after a look at the leader.
//!
//! Loom models `deputy` and `roles` check this.
//!
//! Rejected: to let the pool call wakers. No deputy would be needed, but sleeps would wait while callbacks block all
//! workers. The hand-over costs an eighth of the CPU time of 10^5 sleeps a second: see "Tried and reverted" in
//! `docs/benchmarks/notebook.md`.

use std::time::{Duration, Instant};

use super::alarm::{AWAKE, Alarms};
use super::leader::{NONE, Offices};

/// Time between two looks. A waker that blocks delays other shards for one to two intervals.
pub(crate) const INTERVAL: Duration = Duration::from_millis(4);

/// What the deputy saw at its last look, and when that was.
pub(crate) type Seen = Option<(Offices, Instant)>;

impl Alarms {
    /// The leader, which calls this, is about to call foreign code.
    pub(crate) fn enter(&self) {
        let inside = |seen: Offices| {
            let seen = if seen.deputy == NONE { self.appoint(seen, NONE) } else { seen };
            seen.next_phase()
        };
        self.wake_deputy(self.leader.update(inside));
    }

    /// A thread that was the leader has called foreign code. Returns whether it leads still.
    pub(crate) fn leave(&self, number: u32) -> bool {
        let outside = |seen: Offices| {
            if seen.leader == number { seen.next_phase() } else { Offices { deputy: number, ..seen } }
        };
        self.leader.update(outside).0.leader == number
    }

    /// The thread of this number, which does not lead, is about to call foreign code. It is not the deputy then, if another
    /// thread can be.
    pub(crate) fn delegate(&self, number: u32) {
        let delegated = |seen: Offices| if seen.deputy == number { self.appoint(seen, number) } else { seen };
        self.wake_deputy(self.leader.update(delegated));
    }

    /// Appoints another thread than the leader and `not`, if there is one: rather one that is asleep than one that may be
    /// stuck.
    fn appoint(&self, seen: Offices, not: u32) -> Offices {
        let others = || (0..self.len()).filter(|&other| other != not && other != seen.leader);
        let other = others().find(|&other| self.get(other).is_asleep()).or_else(|| others().next());
        Offices { deputy: other.unwrap_or(seen.deputy), ..seen }
    }

    fn wake_deputy(&self, (old, new): (Offices, Offices)) {
        if new.deputy != old.deputy {
            self.wake_by(new.deputy, AWAKE);
        }
    }

    /// Returns whether the thread of this number must look before it sleeps: it was appointed after its last look, which
    /// returned `next`.
    pub(crate) fn must_look(&self, number: u32, next: Option<Duration>) -> bool {
        next.is_none() && self.leader.load().deputy == number
    }

    /// Looks after the leader, if the calling thread, of this number, is the deputy. Calls `succeeded` if it leads from now
    /// on. Returns the time until the next look.
    pub(crate) fn look(
        &self,
        number: u32,
        seen: &mut Seen,
        now: Instant,
        succeeded: impl FnOnce(),
    ) -> Option<Duration> {
        let offices = self.leader.load();
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
        let resigned = Offices { deputy: NONE, ..offices };
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
