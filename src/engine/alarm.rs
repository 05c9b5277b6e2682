//! Alarms: how the thread that has a role sleeps, and how other threads wake it.
//!
//! A thread with a role drives some shards, one or many. It sleeps until the earliest of their `wake_tick`s. The word
//! `until` says for how long:
//!
//! ```text
//! the thread with the role                     caller
//! ────────────────────────                     ──────
//! until := earliest wake_tick of its shards    wake_tick of one shard := tick
//! fence                                        fence
//! is the earliest wake_tick still the same?    is until > tick?
//! if so: park until then                       if so: until := tick, and unpark the thread
//! until := AWAKE
//! ```
//!
//! This is the protocol of [`wakeup`](super::wakeup) once more, with the same argument. Loom model `roles` checks it.
//!
//! **Earlier and earlier deadlines.** A timer that is far ahead may be reset to earlier again and again. So a thread that
//! callers have woken [twice](PATIENCE) before its time sleeps only half as long, and then looks by itself. Until then, a
//! deadline of the second half wakes it no more.
//!
//! **Which thread parks.** An alarm belongs to an own thread, which attaches its parker before its first
//! sleep. A caller that lowers `until` has read the value of one such sleep, so it finds the thread.

use std::time::Duration;

use crate::sync::{AtomicU64, Ordering, Parker, fence};

/// The number of the thread that leads: it drives the folded shards, and checks the pool.
pub(crate) const LEADER: u32 = 0;

/// The tick of what is awake: of a thread with a role, or of a shard whose driver checks the intake before it sleeps.
pub(crate) const AWAKE: u64 = 0;

/// How many sleeps in a row callers may end before their time until the thread sleeps half as long.
const PATIENCE: u32 = 2;

/// The alarms of a service, one for each own thread.
pub(crate) struct Alarms(Vec<Alarm>);

/// The sleep of an own thread. On a cache line of its own.
#[repr(align(128))]
pub(crate) struct Alarm {
    /// Tick until which the thread sleeps, or `AWAKE`.
    until: AtomicU64,
    /// Tick before which no deadline ends the sleep: see [`gate`](super::gate). It only grows.
    floor: AtomicU64,
    pub(crate) parker: Parker,
}

/// Returns until when a thread sleeps that is needed at the tick `tick`, but not before `floor`. Callers have ended its
/// last `early` sleeps before their time.
pub(crate) fn sleep_until(early: u32, now: impl FnOnce() -> u64, tick: u64, floor: u64) -> u64 {
    if early < PATIENCE || tick == u64::MAX {
        return tick;
    }
    let now = now();
    tick.min((now + tick.saturating_sub(now) / 2).max(floor))
}

/// Returns when a thread that wakes for no deadline before `floor` wakes for `tick`.
pub(crate) fn not_before(tick: u64, floor: u64) -> u64 {
    if tick == AWAKE { AWAKE } else { tick.max(floor) }
}

impl Alarms {
    pub(crate) fn new(threads: usize) -> Self {
        let alarm = |_| Alarm { until: AtomicU64::new(AWAKE), floor: AtomicU64::new(0), parker: Parker::new() };
        Self((0..threads).map(alarm).collect())
    }

    /// Wakes all threads, because the service ends. The caller has closed its shards, and each close has a fence.
    pub(crate) fn wake_all(&self) {
        self.0.iter().for_each(|alarm| alarm.wake_by(AWAKE));
    }

    /// Returns whether the calling thread is one of the own threads.
    pub(crate) fn is_attached_here(&self) -> bool {
        self.0.iter().any(|alarm| alarm.parker.is_attached_here())
    }

    /// Returns the alarm of the thread that has the role.
    pub(crate) fn get(&self, role: u32) -> &Alarm {
        &self.0[role as usize]
    }
}

impl Alarm {
    /// Returns whether the thread sleeps, or is about to.
    pub(crate) fn is_asleep(&self) -> bool {
        // Relaxed: a hint.
        self.until.load(Ordering::Relaxed) != AWAKE
    }

    /// Makes sure that the thread sees by `tick` what the caller wrote before a fence, or under a lock that it holds.
    pub(crate) fn wake_by(&self, tick: u64) {
        // Relaxed: the caller's fence orders it like `until`. An old floor only wakes the thread too early. A new one belongs
        // to a later sleep, before which the thread has looked at everything. Loom model `roles`.
        let tick = not_before(tick, self.floor.load(Ordering::Relaxed));
        // Acquire: the caller that lowers the word sees which thread is attached; pairs with `sleep`. Loom model `roles`.
        if self.until.load(Ordering::Relaxed) > tick && self.until.fetch_min(tick, Ordering::Acquire) > tick {
            self.parker.unpark();
        }
    }

    /// Sleeps until the tick that `earliest` returns, or until an earlier one that a caller sets, but until `floor` if that
    /// is later. May return earlier. Returns whether the thread has slept.
    ///
    /// `timeout` converts a tick into the time that is left until then: zero if the tick has come, or if the sleep
    /// should end for another reason; `None` if time alone never brings it. `now` returns the present tick. `early` counts
    /// the sleeps in a row that callers have ended before their time.
    pub(crate) fn sleep(
        &self,
        floor: u64,
        early: &mut u32,
        now: impl Fn() -> u64,
        earliest: impl Fn() -> u64,
        timeout: impl FnOnce(u64) -> Option<Duration>,
    ) -> bool {
        self.floor.store(floor, Ordering::Relaxed);
        let earliest = || not_before(earliest(), floor);
        let until = sleep_until(*early, &now, earliest(), floor).max(AWAKE + 1);
        // Release: publishes which thread is attached to the callers that lower the word; pairs with `wake_by`. Loom
        // model `roles`.
        self.until.swap(until, Ordering::Release);
        // SeqCst: orders the write before the second look. Loom model `roles`.
        fence(Ordering::SeqCst);
        // Relaxed, here and below: a caller that lowers the word later unparks the thread. Loom model `roles`.
        let left = (earliest() >= until).then(|| timeout(self.until.load(Ordering::Relaxed)));
        let sleeps = left.is_some_and(|left| left != Some(Duration::ZERO));
        if sleeps {
            self.parker.park(left.flatten());
        }
        // Relaxed: the fence of the next sleep orders this before the second look there. Loom model `roles`.
        let lowered = self.until.swap(AWAKE, Ordering::Relaxed);
        if sleeps {
            *early = if lowered < until && now() < lowered { *early + 1 } else { 0 };
        }
        sleeps
    }
}
