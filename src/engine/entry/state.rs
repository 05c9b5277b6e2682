//! The state word of an entry: who may touch it, and when it is due, in one atomic 64-bit word.
//!
//! ```text
//!  63                                 14 13             0
//! ┌─────────────────────────────────────┬───────────────┐
//! │ deadline                            │ flags         │
//! └─────────────────────────────────────┴───────────────┘
//! ```
//!
//! A deadline is a tick, and ticks have 64 bits. Within [`REACH`] of the present it is kept by its low 50 bits: whoever
//! reads it knows the present well enough to tell the rest. Farther away, and only there, it is kept as a multiple of 16384
//! ticks ([`COARSE`]). Who arms the entry has it to himself and keeps the remainder beside the word ([`HAS_REMAINDER`]); but who
//! resets it has nothing but the word, and rounds up; past the last multiple, to the tick that never comes.
//!
//! | the deadline is kept    | how far ahead  | at a tick of 1 µs | at a tick of 1 ms | late by at most |
//! |-------------------------|----------------|-------------------|-------------------|-----------------|
//! | by its low bits         | < 2^48 ticks   | 9 years           | 9,000 years       | 0               |
//! | as a multiple, armed    | all of 64 bits | 584,000 years     | 584 million years | 0               |
//! | as a multiple, reset    | all of 64 bits | 584,000 years     | 584 million years | 16383 ticks     |

/// The callback in the entry is to run. Whoever clears this flag owns the callback, and nobody else does.
pub(crate) const ARMED: u64 = 1 << 0;
/// A worker is inside the callback, or has it in hand.
pub(crate) const RUNNING: u64 = 1 << 1;
/// A handle refers to the entry: it must not be used for another timer.
pub(crate) const HANDLE: u64 = 1 << 2;
/// The entry is in the intake, or on its way there: the driver will look at it.
pub(crate) const ENQUEUED: u64 = 1 << 3;
/// The entry is in the wheel, at its deadline or an earlier one. Changed by the driver alone.
pub(crate) const LINKED: u64 = 1 << 4;
/// The entry is in a batch: a worker will look at it.
pub(crate) const DISPATCHED: u64 = 1 << 5;
/// The callback runs again and again: it stays armed while it runs.
pub(crate) const PERIODIC: u64 = 1 << 6;
/// A reset came while the callback ran: its deadline takes the place of the callback's own next one.
pub(crate) const RESET_WHILE_RUNNING: u64 = 1 << 7;
/// Somebody sleeps until `RUNNING` is cleared.
pub(crate) const HAS_WAITER: u64 = 1 << 8;
/// The shard has been shut down: nothing is armed any more.
pub(crate) const CLOSED: u64 = 1 << 9;
/// The entry is in a thread's cache, though the driver has it as well: that thread may arm it again.
pub(crate) const CACHED: u64 = 1 << 10;
/// The callback wakes a task: the driver itself runs it.
pub(crate) const WAKER: u64 = 1 << 11;
/// The deadline is a multiple of 16384 ticks.
const COARSE: u64 = 1 << 12;
/// And a remainder, which is kept beside the word. This flag alone: the deadline never comes.
const HAS_REMAINDER: u64 = 1 << 13;

const DEADLINE_SHIFT: u32 = 14;
const FLAGS: u64 = (1 << DEADLINE_SHIFT) - 1;
/// How far from the present a deadline is kept exactly, in ticks: 9 years of microseconds. Half of what 50 bits can
/// tell apart, so that a reader's idea of the present may be as far again from the writer's.
const REACH: u64 = 1 << 48;

/// A copy of an entry's state word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State(pub(crate) u64);

impl State {
    pub(crate) const FREE: State = State(0);

    #[inline]
    pub(crate) fn has(self, flag: u64) -> bool {
        self.0 & flag != 0
    }

    #[inline]
    pub(crate) fn with(self, flags: u64) -> State {
        State(self.0 | flags)
    }

    #[inline]
    pub(crate) fn without(self, flags: u64) -> State {
        State(self.0 & !flags)
    }

    /// Those of the flags that are set.
    #[inline]
    pub(crate) fn only(self, flags: u64) -> u64 {
        self.0 & flags
    }

    /// The same flags with another deadline, rounded up if it is far. `now` is the present tick.
    #[inline]
    pub(crate) fn with_deadline(self, deadline: u64, now: u64) -> State {
        if is_near(deadline, now) {
            return self.with_near(deadline);
        }
        match deadline.checked_add(FLAGS) {
            Some(rounded_up) => self.with_coarse(rounded_up),
            None => State(self.flags()).with(HAS_REMAINDER),
        }
    }

    /// The same flags with another deadline, and the remainder to keep beside the word if it is far. `now` is the present
    /// tick.
    #[inline]
    pub(crate) fn with_exact_deadline(self, deadline: u64, now: u64) -> (State, Option<u32>) {
        if is_near(deadline, now) {
            (self.with_near(deadline), None)
        } else {
            (self.with_coarse(deadline).with(HAS_REMAINDER), Some((deadline & FLAGS) as u32))
        }
    }

    #[inline]
    fn with_near(self, deadline: u64) -> State {
        State(deadline << DEADLINE_SHIFT | self.flags())
    }

    fn with_coarse(self, deadline: u64) -> State {
        State(deadline & !FLAGS | self.flags()).with(COARSE)
    }

    #[inline]
    fn flags(self) -> u64 {
        self.0 & FLAGS & !(COARSE | HAS_REMAINDER)
    }

    /// Whether this is the deadline, and is kept by its low bits. Another one may have the same low bits: it is farther
    /// away than a thread can be behind the present.
    #[inline]
    pub(crate) fn has_deadline(self, deadline: u64) -> bool {
        !self.has(COARSE | HAS_REMAINDER) && self.0 & !FLAGS == deadline << DEADLINE_SHIFT
    }

    /// The deadline, as a tick; `remainder` tells what is kept beside the word, or was before the timer ended. `now` is
    /// the present tick, give or take less than [`REACH`].
    #[inline]
    pub(crate) fn deadline(self, now: u64, remainder: impl FnOnce() -> u32) -> u64 {
        if self.has(COARSE | HAS_REMAINDER) {
            let multiple = self.0 & !FLAGS;
            return match (self.has(COARSE), self.has(HAS_REMAINDER)) {
                (true, false) => multiple,
                (true, true) => multiple | u64::from(remainder()) & FLAGS,
                (false, _) => u64::MAX,
            };
        }
        let distance =
            (self.0 as i64 >> DEADLINE_SHIFT).wrapping_sub(now as i64).wrapping_shl(DEADLINE_SHIFT) >> DEADLINE_SHIFT;
        now.wrapping_add_signed(distance)
    }

    /// Whether nobody but a handle may be touching the entry.
    #[inline]
    pub(crate) fn is_idle(self) -> bool {
        !self.has(ARMED | RUNNING | ENQUEUED | LINKED | DISPATCHED)
    }
}

#[inline]
fn is_near(deadline: u64, now: u64) -> bool {
    deadline.abs_diff(now) < REACH
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const MOMENTS: [u64; 8] = [0, 1, (1 << 30) - 1, 1 << 36, 1 << 52, 1 << 53, u64::MAX - 5000, u64::MAX];

    fn none() -> u32 {
        panic!("nothing is kept beside the state")
    }

    #[test]
    fn near_deadlines_are_exact_at_any_uptime() {
        for now in MOMENTS {
            for deadline in [now, now.saturating_add(1), now.saturating_add(1 << 47), now.saturating_sub(9)] {
                for late in [0, 1, 1 << 40] {
                    let state = State(ARMED | HANDLE).with_deadline(deadline, now);
                    assert_eq!(state.deadline(now.saturating_add(late), none), deadline);
                    assert!(state.has(ARMED) && state.has(HANDLE) && !state.has(LINKED));
                }
            }
        }
    }

    #[test]
    fn far_deadlines_are_exact_with_their_remainder() {
        for deadline in [1 << 52, (1 << 53) + 10, u64::MAX / 2 + 1, u64::MAX - 16383, u64::MAX] {
            let (state, remainder) = State(PERIODIC).with_exact_deadline(deadline, 0);
            assert_eq!(state.deadline(12345, || remainder.unwrap()), deadline);
            assert!(state.has(PERIODIC));
        }
        let (state, remainder) = State::FREE.with_exact_deadline(77, 0);
        assert_eq!((state.deadline(0, none), remainder), (77, None));
    }

    #[test]
    fn far_deadlines_alone_are_never_early_and_hardly_late() {
        for deadline in [1 << 52, (1 << 53) + 10, u64::MAX / 2 + 1, u64::MAX - 17_000] {
            let kept = State::FREE.with_deadline(deadline, 0).deadline(12345, none);
            assert!(kept >= deadline && kept - deadline < 16384, "{kept} for {deadline}");
        }
        for never in [u64::MAX - 16382, u64::MAX - 1, u64::MAX] {
            assert_eq!(State::FREE.with_deadline(never, 0).deadline(0, none), u64::MAX);
        }
    }

    #[test]
    fn what_has_taken_the_place_of_a_remainder_does_no_harm() {
        let (state, _) = State::FREE.with_exact_deadline(u64::MAX - 5, 0);
        assert!(state.deadline(0, || u32::MAX) >= u64::MAX - 16383);
    }

    #[test]
    fn a_new_deadline_replaces_the_old_one_and_keeps_the_flags() {
        let (far, _) = State(ARMED | PERIODIC).with_exact_deadline((1 << 60) + 5, 0);
        let state = far.with_deadline(77, 0);
        assert_eq!(state.deadline(0, none), 77);
        assert_eq!(state, State(ARMED | PERIODIC).with_deadline(77, 0));
    }
}
