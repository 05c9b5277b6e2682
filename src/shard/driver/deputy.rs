//! The deputy: an own thread that notices when the leader is stuck in foreign code.
//!
//! The leader calls wakers. One that blocks should delay its own shard only, so another thread must notice. Before the
//! leader calls wakers, it appoints a deputy, unless there is one: an own thread that is asleep. The deputy looks every
//! [`INTERVAL`]. If the leader has been inside the same foreign code since the last look, every shard gets its own
//! thread. The deputy gives the wakers that are left to the pool, drives the leader's shard, and grows the pool.
//! If the leader has called no waker since then, the deputy resigns, and sleeps as before.
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

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::drivers::{Drivers, LEADER};
use super::expired::Wakers;
use crate::executor::{Batch, erase};
use crate::sync::lock;

/// Time between two looks. A waker that blocks delays other shards for one to two intervals.
const INTERVAL: Duration = Duration::from_millis(4);
/// The number of no thread.
const NONE: u32 = u32::MAX;

/// Which own thread is the deputy, and what it looks at.
pub(super) struct Deputy {
    thread: AtomicU32,
    /// How often the leader has begun or ended to call foreign code: odd while it is inside.
    phase: AtomicU64,
    /// What the leader calls, or has called last.
    wakers: Mutex<Arc<Wakers>>,
    /// The own thread that grows the pool: the leader, unless it is stuck.
    grower: AtomicU32,
}

/// The phase that the deputy saw at its last look, and when that was.
pub(super) type Seen = Option<(u64, Instant)>;

impl Deputy {
    pub(super) fn new() -> Self {
        Self {
            thread: AtomicU32::new(NONE),
            phase: AtomicU64::new(0),
            wakers: Mutex::default(),
            grower: AtomicU32::new(LEADER),
        }
    }
}

impl Drivers {
    /// Calls wakers on the own thread of this number.
    pub(super) fn call_wakers(&self, number: u32, wakers: Arc<Wakers>) {
        if !self.has_leader() {
            return wakers.run();
        }
        let Deputy { thread, phase, .. } = &self.deputy;
        let is_leader = number == LEADER;
        if is_leader {
            *lock(&self.deputy.wakers) = wakers.clone();
            // Relaxed, here and below: the fences order it; see the file's head.
            phase.fetch_add(1, Ordering::Relaxed);
            fence(Ordering::SeqCst);
        }
        if thread.load(Ordering::Relaxed) == if is_leader { NONE } else { number } {
            let asleep =
                (1..self.shards.len() as u32).find(|&other| other != number && self.alarms.get(other).is_asleep());
            thread.store(asleep.unwrap_or(NONE), Ordering::Relaxed);
            asleep.into_iter().for_each(|other| self.alarms.get(other).wake_by(0));
        }
        wakers.run();
        if is_leader {
            phase.fetch_add(1, Ordering::Relaxed);
            if !self.is_grower(LEADER) {
                self.set_grower(LEADER);
            }
        }
    }

    /// Makes the calling own thread the one that grows the pool.
    fn set_grower(&self, number: u32) {
        self.deputy.grower.store(number, Ordering::Relaxed);
        self.dispatcher.set_grower(thread::current());
    }

    /// Returns whether the own thread of this number grows the pool.
    pub(super) fn is_grower(&self, number: u32) -> bool {
        // Relaxed: an own thread that is unparked for growth has set it.
        self.deputy.grower.load(Ordering::Relaxed) == number
    }

    /// Looks after the leader, if the calling own thread is the deputy. Returns the time until the next look.
    pub(super) fn look_after_leader(&self, number: u32, seen: &mut Seen) -> Option<Duration> {
        let Deputy { thread, phase, .. } = &self.deputy;
        if thread.load(Ordering::Relaxed) != number {
            return None;
        }
        let (now, current) = (Instant::now(), phase.load(Ordering::Relaxed));
        match *seen {
            Some((last, at)) if last == current => {
                let left = INTERVAL.saturating_sub(now - at);
                if !left.is_zero() {
                    return Some(left);
                }
            }
            _ => {
                *seen = Some((current, now));
                return Some(INTERVAL);
            }
        }
        if !current.is_multiple_of(2) {
            self.unfold(1);
            self.shards[0].core.wakeup.change_role(LEADER, number);
            self.set_grower(number);
            self.dispatcher.enqueue(erase(lock(&self.deputy.wakers).clone()));
            self.leave_check();
        }
        *seen = None;
        thread.store(NONE, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if phase.load(Ordering::Relaxed) == current {
            return None;
        }
        thread.store(number, Ordering::Relaxed);
        Some(INTERVAL)
    }
}
