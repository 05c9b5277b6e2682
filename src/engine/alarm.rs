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
//! if so: sleep until then                      if so: until := tick, and ring the bell
//! until := AWAKE
//! ```
//!
//! This is the protocol of [`wakeup`](super::wakeup) once more, with the same argument. Loom model `roles` checks it.
//!
//! **The bell.** An own thread parks: its bell is a parker, to which it attaches itself before its first sleep. A caller that
//! lowers `until` has read the value of one such sleep, so it finds the thread. A program's loop sleeps where we do not
//! know: its bell is a [waker](super::program_waker).
//!
//! **The floor.** No deadline wakes the thread before the tick at which its [gate](super::gate) opens.
//!
//! **Earlier and earlier deadlines.** A timer that is far ahead may be reset to earlier again and again. So a thread that
//! callers have woken [twice](PATIENCE) before its time sleeps only half as long, and then looks by itself. Until then, a
//! deadline of the second half wakes it no more.

use std::mem;

use crate::sync::{AtomicU64, Ordering, Parker, fence};

/// The number of the thread that leads: it drives the folded shards, and checks the pool.
pub(crate) const LEADER: u32 = 0;

/// The tick of what is awake: of a thread with a role, or of a shard whose driver checks the intake before it sleeps.
pub(crate) const AWAKE: u64 = 0;

/// How many sleeps in a row callers may end before their time until the thread sleeps half as long.
const PATIENCE: u32 = 2;

/// The alarms of a service, one for each own thread.
pub(crate) struct Alarms(Vec<Alarm>);

/// The sleep of a thread that has a role. On a cache line of its own.
#[repr(align(128))]
pub(crate) struct Alarm<B = Parker> {
    /// Tick until which the thread sleeps, or `AWAKE`.
    until: AtomicU64,
    /// Tick before which no deadline ends the sleep. It only grows.
    floor: AtomicU64,
    pub(crate) bell: B,
}

/// Ends the sleep of a thread.
pub(crate) trait Bell {
    fn ring(&self);
}

impl Bell for Parker {
    fn ring(&self) {
        self.unpark();
    }
}

/// What a thread remembers of its sleeps.
#[derive(Default)]
pub(crate) struct Sleeps {
    /// Until when it sleeps, unless callers end the sleep before; or `AWAKE`.
    until: u64,
    /// How many in a row callers have ended before their time.
    early: u32,
}

impl Sleeps {
    /// Returns until when a thread sleeps that is needed at the tick `tick`, but not before `floor`.
    fn until(&self, now: impl FnOnce() -> u64, tick: u64, floor: u64) -> u64 {
        if self.early < PATIENCE || tick == u64::MAX {
            return tick;
        }
        let now = now();
        tick.min((now + tick.saturating_sub(now) / 2).max(floor))
    }
}

/// Returns when a thread that wakes for no deadline before `floor` wakes for `tick`.
fn not_before(tick: u64, floor: u64) -> u64 {
    if tick == AWAKE { AWAKE } else { tick.max(floor) }
}

impl Alarms {
    pub(crate) fn new(threads: usize) -> Self {
        Self((0..threads).map(|_| Alarm::new(Parker::new())).collect())
    }

    /// Wakes all threads, because the service ends. The caller has closed its shards, and each close has a fence.
    pub(crate) fn wake_all(&self) {
        self.0.iter().for_each(|alarm| alarm.wake_by(AWAKE));
    }

    /// Returns whether the calling thread is one of the own threads.
    pub(crate) fn is_attached_here(&self) -> bool {
        self.0.iter().any(|alarm| alarm.bell.is_attached_here())
    }

    /// Returns the alarm of the thread that has the role.
    pub(crate) fn get(&self, role: u32) -> &Alarm {
        &self.0[role as usize]
    }
}

impl<B: Bell> Alarm<B> {
    pub(super) fn new(bell: B) -> Self {
        Self { until: AtomicU64::new(AWAKE), floor: AtomicU64::new(0), bell }
    }

    /// Returns whether the thread sleeps, or is about to.
    pub(crate) fn is_asleep(&self) -> bool {
        // Relaxed: a hint.
        self.until.load(Ordering::Relaxed) != AWAKE
    }

    /// Makes sure that the thread sees by `tick` what the caller wrote before a fence.
    pub(crate) fn wake_by(&self, tick: u64) {
        // Relaxed: the caller's fence orders it like `until`. An old floor only wakes the thread too early. A new one belongs
        // to a later sleep, before which the thread has looked at everything. Loom model `roles`.
        let tick = not_before(tick, self.floor.load(Ordering::Relaxed));
        // Acquire: the caller that lowers the word finds what the bell needs; pairs with `fall_asleep`. Loom model `roles`.
        if self.until.load(Ordering::Relaxed) > tick && self.until.fetch_min(tick, Ordering::Acquire) > tick {
            self.bell.ring();
        }
    }

    /// Begins a sleep until the tick that `earliest` returns, but until `floor` if that is later. Returns the tick until
    /// which the thread may sleep: then it must call [`wake_up`](Self::wake_up) after the sleep. Callers that set an earlier
    /// tick ring the bell. `None`: an earlier one has come meanwhile. `now` returns the present tick.
    pub(crate) fn fall_asleep(
        &self,
        sleeps: &mut Sleeps,
        floor: u64,
        now: impl FnOnce() -> u64,
        earliest: impl Fn() -> u64,
    ) -> Option<u64> {
        self.floor.store(floor, Ordering::Relaxed);
        let earliest = || not_before(earliest(), floor);
        sleeps.until = sleeps.until(now, earliest(), floor).max(AWAKE + 1);
        // Release: publishes what the bell needs to the callers that lower the word; pairs with `wake_by`. Loom model
        // `roles`.
        self.until.swap(sleeps.until, Ordering::Release);
        // SeqCst: orders the write before the second look. Loom model `roles`.
        fence(Ordering::SeqCst);
        if earliest() >= sleeps.until {
            // Relaxed: a caller that lowers the word later rings the bell. Loom model `roles`.
            return Some(self.until.load(Ordering::Relaxed));
        }
        self.set_awake(sleeps);
        None
    }

    /// Ends a sleep that has begun.
    pub(crate) fn wake_up(&self, sleeps: &mut Sleeps, now: impl FnOnce() -> u64) {
        let (until, lowered) = self.set_awake(sleeps);
        if until != AWAKE {
            sleeps.early = if lowered < until && now() < lowered { sleeps.early + 1 } else { 0 };
        }
    }

    /// Returns until when the thread would have slept, and until when callers have let it.
    fn set_awake(&self, sleeps: &mut Sleeps) -> (u64, u64) {
        // Relaxed: the fence of the next sleep orders this before the second look there. Loom model `roles`.
        (mem::replace(&mut sleeps.until, AWAKE), self.until.swap(AWAKE, Ordering::Relaxed))
    }
}
