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
//! **Which thread parks.** An alarm belongs to an own thread, which attaches its parker before its first
//! sleep. A caller that lowers `until` has read the value of one such sleep, so it finds the thread.

use std::time::Duration;

use crate::sync::{AtomicU64, Ordering, Parker, fence};

/// The number of the thread that leads: it drives the folded shards, and checks the pool.
pub(crate) const LEADER: u32 = 0;

/// The tick of what is awake: of a thread with a role, or of a shard whose driver checks the intake before it sleeps.
pub(crate) const AWAKE: u64 = 0;

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
    /// is later. Returns how often the thread woke up. That includes wake-ups after which it slept on, until an earlier
    /// tick.
    ///
    /// `timeout` converts a tick into the time that is left until then: zero if the tick has come, or if the sleep
    /// should end for another reason; `None` if time alone never brings it.
    pub(crate) fn sleep(
        &self,
        floor: u64,
        earliest: impl Fn() -> u64,
        mut timeout: impl FnMut(u64) -> Option<Duration>,
    ) -> u64 {
        self.floor.store(floor, Ordering::Relaxed);
        let earliest = || not_before(earliest(), floor);
        let until = earliest().max(AWAKE + 1);
        // Release: publishes which thread is attached to the callers that lower the word; pairs with `wake_by`. Loom
        // model `roles`.
        self.until.swap(until, Ordering::Release);
        // SeqCst: orders the write before the second look. Loom model `roles`.
        fence(Ordering::SeqCst);
        let mut wakeups = 0;
        if earliest() >= until {
            loop {
                // Relaxed: a caller unparks this thread after it lowers the word, which orders that before the next
                // load. Loom model `roles`.
                let timeout = timeout(self.until.load(Ordering::Relaxed));
                if timeout == Some(Duration::ZERO) {
                    break;
                }
                self.parker.park(timeout);
                wakeups += 1;
            }
        }
        // Relaxed: the fence of the next sleep orders this before the second look there. Loom model `roles`.
        self.until.swap(AWAKE, Ordering::Relaxed);
        wakeups
    }
}
