//! The deputy: a thread that notices when the leader is stuck in foreign code.
//!
//! The leader calls wakers. One that blocks should delay its own shard only, so another thread must notice. Before the
//! leader calls wakers, it appoints a deputy, unless there is one: another own thread. The deputy looks every
//! [`INTERVAL`]. If the leader has been inside the same foreign code since the last look, it is stuck. If the leader has
//! called no waker since then, the deputy resigns, and sleeps as before.
//!
//! ```text
//! leader                            deputy
//! ──────                            ──────
//! phase += 1 (odd: inside)          deputy := none
//! fence                             fence
//! deputy = none? then appoint one   has the phase changed? then deputy := this thread
//! ```
//!
//! By the fences, the leader finds that there is no deputy, or the deputy finds the new phase. A deputy that calls wakers
//! itself appoints another first.
//!
//! An appointment is a wake-up of an [alarm](super::alarm): the leader writes `deputy`, and then lowers `until`. A thread
//! reads `deputy` in its second look before it sleeps, so it sleeps only after a look at the leader.
//!
//! A shard that goes to the leader must not come after the deputy has resigned. So the thread that [gives](Deputy::give)
//! it looks at the phase afterwards, and takes it back if the leader is inside. By the fences, either it does so, or the
//! deputy finds the shard. The leader takes the first shard back when it has left the foreign code.
//!
//! Loom model `deputy` checks all this.
//!
//! Rejected: to let the pool call wakers. No deputy would be needed, but sleeps would wait while callbacks block all
//! workers. The hand-over costs an eighth of the CPU time of 10^5 sleeps a second: see "Tried and reverted" in
//! `docs/benchmarks/notebook.md`.

use std::time::{Duration, Instant};

use super::alarm::{AWAKE, Alarms};
use super::wakeup::{DriverWakeup, LEADER, PROGRAM};
use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// Time between two looks. A waker that blocks delays other shards for one to two intervals.
pub(crate) const INTERVAL: Duration = Duration::from_millis(4);
/// In place of a role's number.
const NONE: u32 = u32::MAX;

/// Which own thread is the deputy, by the number of its role, and what it looks at.
pub(crate) struct Deputy {
    thread: AtomicU32,
    /// How often the leader has begun or ended to call foreign code: odd while it is inside.
    phase: AtomicU64,
}

/// The phase that the deputy saw at its last look, and when that was.
pub(crate) type Seen = Option<(u64, Instant)>;

impl Deputy {
    pub(crate) fn new() -> Self {
        Self { thread: AtomicU32::new(NONE), phase: AtomicU64::new(0) }
    }

    /// The leader is about to call foreign code.
    pub(crate) fn enter(&self, alarms: &Alarms) {
        // Relaxed, here and below: the fences order it. Loom model `deputy`.
        self.phase.fetch_add(1, Ordering::Relaxed);
        // SeqCst: orders the phase before the load; see the file's head. Loom model `deputy`.
        fence(Ordering::SeqCst);
        self.replace(NONE, alarms);
    }

    /// The leader has called foreign code. Takes the first of the `shards` back if another of the timer's threads has it.
    /// Takes all shards of that thread, which a waker of the first shard may block.
    pub(crate) fn leave<'a>(&self, mut shards: impl Iterator<Item = &'a DriverWakeup> + Clone) {
        self.phase.fetch_add(1, Ordering::Relaxed);
        // SeqCst: orders the phase before the load of the role; pairs with the fence of `change_role` in `give`. Loom model
        // `deputy`.
        fence(Ordering::SeqCst);
        let all = shards.clone();
        let role = shards.next().map_or(LEADER, DriverWakeup::role);
        if ![LEADER, PROGRAM].contains(&role) {
            all.for_each(|shard| _ = shard.change_role(role, LEADER));
        }
    }

    /// Gives a shard from the role `from` to the leader, while that is not inside foreign code, or to another role while it
    /// is: to the first of `to`, then to the second if the first does not fit.
    pub(crate) fn give(&self, shard: &DriverWakeup, mut from: u32, to: [u32; 2]) {
        for to in to.into_iter().cycle() {
            // Relaxed: the fence of `change_role` orders it. Loom model `deputy`.
            if !shard.change_role(from, to) || (self.phase.load(Ordering::Relaxed) % 2 == 0) == (to == LEADER) {
                return;
            }
            from = to;
        }
    }

    /// Returns whether the leader is inside foreign code, perhaps for long.
    pub(crate) fn is_leader_inside(&self) -> bool {
        // Relaxed: a hint. The deputy finds a leader that enters afterwards.
        self.phase.load(Ordering::Relaxed) % 2 != 0
    }

    /// Appoints a thread instead of `old`, if that is the deputy.
    pub(crate) fn replace(&self, old: u32, alarms: &Alarms) {
        if !self.is(old) {
            return;
        }
        let others = || (1..alarms.len()).filter(|&other| other != old);
        let other = others().find(|&other| alarms.get(other).is_asleep()).or_else(|| others().next());
        self.thread.store(other.unwrap_or(NONE), Ordering::Relaxed);
        other.into_iter().for_each(|other| alarms.get(other).wake_by(AWAKE));
    }

    /// Returns whether the thread with this role must look before it sleeps: it was appointed after its last look, which
    /// returned `next`.
    pub(crate) fn must_look(&self, number: u32, next: Option<Duration>) -> bool {
        next.is_none() && self.is(number)
    }

    /// Returns whether the thread with this role is the deputy.
    fn is(&self, number: u32) -> bool {
        self.thread.load(Ordering::Relaxed) == number
    }

    /// Looks after the leader, if the calling thread, with this role, is the deputy. Calls `stuck` if the leader is.
    /// Returns the time until the next look.
    pub(crate) fn look(&self, number: u32, seen: &mut Seen, now: Instant, stuck: impl FnOnce()) -> Option<Duration> {
        if !self.is(number) {
            return None;
        }
        let phase = self.phase.load(Ordering::Relaxed);
        let Some((_, since)) = seen.filter(|&(last, _)| last == phase) else {
            *seen = Some((phase, now));
            return Some(INTERVAL);
        };
        let left = INTERVAL.saturating_sub(now - since);
        if !left.is_zero() {
            return Some(left);
        }
        if phase % 2 != 0 {
            stuck();
        }
        *seen = None;
        self.thread.store(NONE, Ordering::Relaxed);
        // SeqCst: orders the resignation before the load; see the file's head. Loom model `deputy`.
        fence(Ordering::SeqCst);
        if self.phase.load(Ordering::Relaxed) == phase {
            return None;
        }
        self.thread.store(number, Ordering::Relaxed);
        Some(INTERVAL)
    }
}
