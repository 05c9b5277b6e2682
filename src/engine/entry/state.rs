//! The state word of an entry: its flags and its deadline, in one atomic 64-bit word.
//!
//! ```text
//!  63                                 14 13             0
//! ┌─────────────────────────────────────┬───────────────┐
//! │ deadline                            │ flags         │
//! └─────────────────────────────────────┴───────────────┘
//! ```
//!
//! A deadline is a tick of 64 bits, but the word has room for 50.
//!
//! - A *near* deadline is within [`EXACT_RANGE`] of the present tick. The word has its low 50 bits. A reader knows the
//!   present well enough to complete them.
//! - A *far* deadline is rounded up to a multiple of 16384 ticks ([`COARSE`]). The last multiple stands for [`u64::MAX`],
//!   the tick that never comes.
//!
//! | deadline | range          | at a tick of 1 µs | at a tick of 1 ms | late by at most |
//! |----------|----------------|-------------------|-------------------|-----------------|
//! | near     | < 2^48 ticks   | 9 years           | 9,000 years       | 0               |
//! | far      | all of 64 bits | 584,000 years     | 584 million years | 16383 ticks     |

use super::callback::CallbackKind;

/// The timer is pending: the callback has yet to run. The thread that clears this flag owns the callback.
pub(crate) const ARMED: u64 = 1 << 0;
/// A worker owns the callback, and runs or drops it.
pub(crate) const RUNNING: u64 = 1 << 1;
/// A handle refers to the entry, which must not be used for another timer.
pub(crate) const HANDLE: u64 = 1 << 2;
/// The entry is in the intake, or about to be pushed there: the driver will collect it.
pub(crate) const ENQUEUED: u64 = 1 << 3;
/// The entry is in the wheel, at its deadline or earlier. Only the driver changes this flag.
pub(crate) const LINKED: u64 = 1 << 4;
/// The entry is in a batch: a worker will come to it.
pub(crate) const DISPATCHED: u64 = 1 << 5;
/// The callback runs more than once. The timer stays armed while it runs.
pub(super) const PERIODIC: u64 = 1 << 6;
/// A reset has set the deadline since the last run began. It replaces the deadline that a periodic callback returns,
/// and the callback [learns](super::PeriodicCallback::reset) of it.
pub(super) const RESET: u64 = 1 << 7;
/// With `RUNNING`: a thread sleeps until that is cleared.
pub(crate) const HAS_WAITER: u64 = 1 << 8;
/// Without `RUNNING`: the shutdown has ended the timer, and has yet to take the callback. Both flags are one, because the
/// end of a run clears it with `RUNNING`. A run that is claimed wakes threads for nothing.
pub(crate) const CLAIMED: u64 = HAS_WAITER;
/// The shard has been shut down: the entry is never armed, reset or started again.
pub(crate) const CLOSED: u64 = 1 << 9;
/// The entry is in a thread's cache or in the depot, though it may still be in the wheel or in the intake. Its owner
/// may arm it.
pub(super) const UNUSED: u64 = 1 << 10;
/// The callback wakes a task. The driver itself runs it.
pub(super) const WAKER: u64 = 1 << 11;
/// The callback makes a value of a delay queue due. The driver itself runs it, before it calls any waker.
pub(super) const VALUE: u64 = 1 << 12;
/// The deadline is a multiple of 16384 ticks.
const COARSE: u64 = 1 << 13;

const DEADLINE_SHIFT: u32 = 14;
const FLAGS: u64 = (1 << DEADLINE_SHIFT) - 1;
/// Distance from the present within which the word alone has the exact deadline, in ticks: 9 years of microseconds.
///
/// It is a quarter of the 2^50 ticks that 50 bits tell apart. So a reader completes the deadline correctly even if its
/// present differs from the writer's by up to as much again. Real time does not pass that far in between, and virtual
/// time ends at this tick.
pub(crate) const EXACT_RANGE: u64 = 1 << 48;
/// The multiple that stands for a deadline that never comes.
const NEVER: u64 = !FLAGS;

/// A copy of an entry's state word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State(pub(super) u64);

impl State {
    pub(super) const FREE: State = State(0);

    pub(crate) fn has(self, flag: u64) -> bool {
        self.0 & flag != 0
    }

    pub(super) fn with(self, flags: u64) -> State {
        State(self.0 | flags)
    }

    pub(super) fn without(self, flags: u64) -> State {
        State(self.0 & !flags)
    }

    pub(crate) fn kind(self) -> CallbackKind {
        match self.0 & (PERIODIC | WAKER | VALUE) {
            0 => CallbackKind::Once,
            WAKER => CallbackKind::Waker,
            VALUE => CallbackKind::Value,
            _ => CallbackKind::Periodic,
        }
    }

    /// Replaces the deadline, rounded up if it is far. `now` is the present tick.
    pub(super) fn with_deadline(self, deadline: u64, now: u64) -> State {
        let flags = self.0 & FLAGS & !COARSE;
        if deadline.abs_diff(now) < EXACT_RANGE {
            State(deadline << DEADLINE_SHIFT | flags)
        } else {
            State(deadline.saturating_add(FLAGS) & !FLAGS | flags | COARSE)
        }
    }

    /// Returns whether the word has this deadline. Another with the same low bits is farther away than a thread can be
    /// behind the present.
    pub(super) fn has_deadline(self, deadline: u64, now: u64) -> bool {
        self.with_deadline(deadline, now) == self
    }

    /// Returns the deadline, as a tick. `now` is the present tick, with an error of less than [`EXACT_RANGE`].
    pub(crate) fn deadline(self, now: u64) -> u64 {
        if self.has(COARSE) {
            let multiple = self.0 & !FLAGS;
            return if multiple == NEVER { u64::MAX } else { multiple };
        }
        let distance =
            (self.0 as i64 >> DEADLINE_SHIFT).wrapping_sub(now as i64).wrapping_shl(DEADLINE_SHIFT) >> DEADLINE_SHIFT;
        now.wrapping_add_signed(distance)
    }

    /// Returns [`FREE`](Self::FREE) if no thread has a claim on an entry in this state, and otherwise the state. A free
    /// entry has no flag at all, not even one that qualified its last timer.
    pub(super) fn free_if_idle(self) -> State {
        let is_idle = !self.has(ARMED | RUNNING | ENQUEUED | LINKED | DISPATCHED);
        if is_idle && !self.has(HANDLE | CLOSED | UNUSED) { State::FREE } else { self }
    }

    /// Returns whether an entry in this state is free.
    pub(crate) fn is_free(self) -> bool {
        self == State::FREE
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const PRESENT_TICKS: [u64; 8] = [0, 1, (1 << 30) - 1, 1 << 36, 1 << 52, 1 << 53, u64::MAX - 5000, u64::MAX];

    #[test]
    fn near_deadlines_are_exact_at_any_uptime() {
        for now in PRESENT_TICKS {
            for deadline in [now, now.saturating_add(1), now.saturating_add(1 << 47), now.saturating_sub(9)] {
                for late in [0, 1, 1 << 40] {
                    let state = State(ARMED | HANDLE).with_deadline(deadline, now);
                    assert_eq!(state.deadline(now.saturating_add(late)), deadline);
                    assert!(state.has(ARMED) && state.has(HANDLE) && !state.has(LINKED));
                }
            }
        }
    }

    #[test]
    fn far_deadlines_are_rounded_up() {
        for deadline in [1 << 52, (1 << 53) + 10, u64::MAX / 2 + 1, u64::MAX - 33_000] {
            let stored = State(PERIODIC).with_deadline(deadline, 0);
            assert!(stored.has(PERIODIC));
            let late = stored.deadline(12345) - deadline;
            assert!(late < 16384, "{late} late for {deadline}");
        }
        for never in [u64::MAX - 16383, u64::MAX - 1, u64::MAX] {
            assert_eq!(State::FREE.with_deadline(never, 0).deadline(0), u64::MAX);
        }
    }

    #[test]
    fn a_new_deadline_replaces_the_old_one_and_keeps_the_flags() {
        let far = State(ARMED | PERIODIC).with_deadline((1 << 60) + 5, 0);
        let state = far.with_deadline(77, 0);
        assert_eq!(state.deadline(0), 77);
        assert_eq!(state, State(ARMED | PERIODIC).with_deadline(77, 0));
    }
}
