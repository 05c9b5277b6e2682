//! The deputy: a thread that succeeds a leader that is stuck in foreign code.
//!
//! The leader calls wakers. One that blocks should not delay folded shards for long, so another thread must lead on. Before the
//! leader calls wakers, it appoints a deputy, unless there is one: another own thread. The deputy looks every
//! [`INTERVAL`]. If the leader has been inside the same foreign code since the last look, it is stuck, and the deputy
//! [succeeds](super::leader::Leader::succeed) it. If the leader has called no waker since then, the deputy resigns, and
//! sleeps as before.
//!
//! ```text
//! leader                            deputy
//! ──────                            ──────
//! phase += 1 (odd: inside)          deputy := none
//! fence                             fence
//! deputy = none? then appoint one   has the phase changed? then deputy := this thread
//! ```
//!
//! By the fences, the leader finds that there is no deputy, or the deputy finds the new phase. So there is a deputy
//! whenever the leader is inside. A deputy that calls wakers itself appoints another first, if there is one. A leader
//! that comes back, and was succeeded, [is the deputy](Deputy::take): its successor may have appointed a thread that is
//! stuck.
//!
//! An appointment is a wake-up of an [alarm](super::alarm): the leader writes `deputy`, and then lowers `until`. A thread
//! reads `deputy` in its second look before it sleeps, so it sleeps only after a look at the leader.
//!
//! Loom model `deputy` checks all this.
//!
//! Rejected: to let the pool call wakers. No deputy would be needed, but sleeps would wait while callbacks block all
//! workers. The hand-over costs an eighth of the CPU time of 10^5 sleeps a second: see "Tried and reverted" in
//! `docs/benchmarks/notebook.md`.

use std::time::{Duration, Instant};

use super::alarm::{AWAKE, Alarms};
use super::leader::Leads;
use crate::sync::{AtomicU32, Ordering, fence};

/// Time between two looks. A waker that blocks delays other shards for one to two intervals.
pub(crate) const INTERVAL: Duration = Duration::from_millis(4);
/// In place of a thread's number.
const NONE: u32 = u32::MAX;

/// Which own thread is the deputy, by its number.
pub(crate) struct Deputy(AtomicU32);

/// What the deputy saw at its last look, and when that was.
pub(crate) type Seen = Option<(Leads, Instant)>;

impl Deputy {
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(NONE))
    }

    /// The leader, which calls this, is about to call foreign code.
    pub(crate) fn enter(&self, alarms: &Alarms) -> Leads {
        let inside = alarms.leader.enter();
        // SeqCst: orders the phase before the load; see the file's head. Loom model `deputy`.
        fence(Ordering::SeqCst);
        self.replace(NONE, alarms);
        inside
    }

    /// Appoints another thread than the leader instead of `old`, if that is the deputy, and if there is one.
    pub(crate) fn replace(&self, old: u32, alarms: &Alarms) {
        if !self.is(old) {
            return;
        }
        let leader = alarms.leader.number();
        let others = || (0..alarms.len()).filter(|&other| other != old && other != leader);
        let other = others().find(|&other| alarms.get(other).is_asleep()).or_else(|| others().next());
        if let Some(other) = other {
            self.0.store(other, Ordering::Relaxed);
            alarms.wake_by(other, AWAKE);
        }
    }

    /// Appoints the calling thread, of this number. It must look before it sleeps.
    pub(crate) fn take(&self, number: u32) {
        self.0.store(number, Ordering::Relaxed);
    }

    /// Returns whether the thread of this number must look before it sleeps: it was appointed after its last look, which
    /// returned `next`.
    pub(crate) fn must_look(&self, number: u32, next: Option<Duration>) -> bool {
        next.is_none() && self.is(number)
    }

    /// Returns whether the thread of this number is the deputy.
    fn is(&self, number: u32) -> bool {
        // Relaxed, here and below: the fences order it. Loom model `deputy`.
        self.0.load(Ordering::Relaxed) == number
    }

    /// Looks after the leader, if the calling thread, of this number, is the deputy. Calls `succeeded` if it leads from now
    /// on. Returns the time until the next look.
    pub(crate) fn look(
        &self,
        number: u32,
        alarms: &Alarms,
        seen: &mut Seen,
        now: Instant,
        succeeded: impl FnOnce(),
    ) -> Option<Duration> {
        if !self.is(number) {
            return None;
        }
        let leads = alarms.leader.load();
        let Some((_, since)) = seen.filter(|&(last, _)| last == leads) else {
            *seen = Some((leads, now));
            return Some(INTERVAL);
        };
        let left = INTERVAL.saturating_sub(now - since);
        if !left.is_zero() {
            return Some(left);
        }
        *seen = None;
        self.0.store(NONE, Ordering::Relaxed);
        if leads.is_inside() && alarms.leader.succeed(leads, number) {
            succeeded();
            return None;
        }
        // SeqCst: orders the resignation before the load; see the file's head. Loom model `deputy`.
        fence(Ordering::SeqCst);
        if alarms.leader.load() == leads {
            return None;
        }
        self.0.store(number, Ordering::Relaxed);
        Some(INTERVAL)
    }
}
