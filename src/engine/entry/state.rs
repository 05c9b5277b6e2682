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
//! - A *far* deadline is stored as a multiple of 16384 ticks ([`COARSE`]). The thread that arms the entry has it to
//!   itself, so it stores the remainder beside the word ([`HAS_REMAINDER`]). A reset can change only the word, so it
//!   rounds up. Past the last multiple it rounds up to [`u64::MAX`], the tick that never comes.
//!
//! | deadline        | range          | at a tick of 1 µs | at a tick of 1 ms | late by at most |
//! |-----------------|----------------|-------------------|-------------------|-----------------|
//! | near            | < 2^48 ticks   | 9 years           | 9,000 years       | 0               |
//! | far, by an arm  | all of 64 bits | 584,000 years     | 584 million years | 0               |
//! | far, by a reset | all of 64 bits | 584,000 years     | 584 million years | 16383 ticks     |

/// The timer is pending: the callback has yet to run. The thread that clears this flag owns the callback.
pub(super) const ARMED: u64 = 1 << 0;
/// A worker owns the callback, and runs it.
pub(super) const RUNNING: u64 = 1 << 1;
/// A handle refers to the entry, which must not be used for another timer.
pub(super) const HANDLE: u64 = 1 << 2;
/// The entry is in the intake, or about to be pushed there: the driver will collect it.
pub(super) const ENQUEUED: u64 = 1 << 3;
/// The entry is in the wheel, at its deadline or earlier. Only the driver changes this flag.
pub(super) const LINKED: u64 = 1 << 4;
/// The entry is in a batch: a worker will come to it.
pub(super) const DISPATCHED: u64 = 1 << 5;
/// The callback runs more than once. The timer stays armed while it runs.
pub(super) const PERIODIC: u64 = 1 << 6;
/// The timer was reset while its callback ran. The deadline of the reset replaces the one that the callback returns.
pub(super) const RESET_WHILE_RUNNING: u64 = 1 << 7;
/// A thread sleeps until `RUNNING` is cleared.
pub(super) const HAS_WAITER: u64 = 1 << 8;
/// The shard has been shut down: the entry is never armed, reset or started again.
pub(super) const CLOSED: u64 = 1 << 9;
/// The entry is in a thread's cache or in the pool, though it may still be in the wheel or in the intake. Its owner may
/// arm it.
pub(super) const CACHED: u64 = 1 << 10;
/// The callback wakes a task. The driver itself runs it.
pub(super) const WAKER: u64 = 1 << 11;
/// The deadline is a multiple of 16384 ticks.
const COARSE: u64 = 1 << 12;
/// The deadline has a remainder, which is stored beside the word. Without [`COARSE`]: the deadline never comes.
const HAS_REMAINDER: u64 = 1 << 13;

const DEADLINE_SHIFT: u32 = 14;
const FLAGS: u64 = (1 << DEADLINE_SHIFT) - 1;
/// Distance from the present within which the word alone has the exact deadline, in ticks: 9 years of microseconds.
///
/// It is a quarter of the 2^50 ticks that 50 bits tell apart. So a reader completes the deadline correctly even if its
/// present differs from the writer's by up to as much again.
const EXACT_RANGE: u64 = 1 << 48;

/// A copy of an entry's state word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State(pub(super) u64);

impl State {
    pub(super) const FREE: State = State(0);

    #[inline]
    pub(super) fn has(self, flag: u64) -> bool {
        self.0 & flag != 0
    }

    #[inline]
    pub(super) fn with(self, flags: u64) -> State {
        State(self.0 | flags)
    }

    #[inline]
    pub(super) fn without(self, flags: u64) -> State {
        State(self.0 & !flags)
    }

    /// Returns those of `flags` that are set.
    #[inline]
    pub(super) fn masked(self, flags: u64) -> u64 {
        self.0 & flags
    }

    /// Replaces the deadline, rounded up if it is far. `now` is the present tick.
    #[inline]
    pub(super) fn with_deadline(self, deadline: u64, now: u64) -> State {
        if is_near(deadline, now) {
            return self.with_near(deadline);
        }
        match deadline.checked_add(FLAGS) {
            Some(rounded_up) => self.with_coarse(rounded_up),
            None => State(self.flags()).with(HAS_REMAINDER),
        }
    }

    /// Replaces the deadline. If it is far, also returns the remainder, which the caller must store beside the word.
    /// `now` is the present tick.
    #[inline]
    pub(super) fn with_exact_deadline(self, deadline: u64, now: u64) -> (State, Option<u32>) {
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

    /// Returns whether the word has the near deadline `deadline`. Another near deadline with the same low bits is
    /// farther away than a thread can be behind the present.
    #[inline]
    pub(super) fn has_deadline(self, deadline: u64) -> bool {
        !self.has(COARSE | HAS_REMAINDER) && self.0 & !FLAGS == deadline << DEADLINE_SHIFT
    }

    /// Returns the deadline, as a tick. `now` is the present tick, with an error of less than [`EXACT_RANGE`].
    /// `remainder` reads what is stored beside the word; if the timer has ended, that may have been overwritten.
    #[inline]
    pub(super) fn deadline(self, now: u64, remainder: impl FnOnce() -> u32) -> u64 {
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

    /// Returns whether no thread but the one with the handle may touch the entry.
    #[inline]
    pub(super) fn is_idle(self) -> bool {
        !self.has(ARMED | RUNNING | ENQUEUED | LINKED | DISPATCHED)
    }
}

#[inline]
fn is_near(deadline: u64, now: u64) -> bool {
    deadline.abs_diff(now) < EXACT_RANGE
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const PRESENT_TICKS: [u64; 8] = [0, 1, (1 << 30) - 1, 1 << 36, 1 << 52, 1 << 53, u64::MAX - 5000, u64::MAX];

    fn none() -> u32 {
        panic!("nothing is stored beside the word")
    }

    #[test]
    fn near_deadlines_are_exact_at_any_uptime() {
        for now in PRESENT_TICKS {
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
    fn far_deadlines_without_a_remainder_are_rounded_up() {
        for deadline in [1 << 52, (1 << 53) + 10, u64::MAX / 2 + 1, u64::MAX - 17_000] {
            let stored = State::FREE.with_deadline(deadline, 0).deadline(12345, none);
            assert!(stored >= deadline && stored - deadline < 16384, "{stored} for {deadline}");
        }
        for never in [u64::MAX - 16382, u64::MAX - 1, u64::MAX] {
            assert_eq!(State::FREE.with_deadline(never, 0).deadline(0, none), u64::MAX);
        }
    }

    #[test]
    fn an_overwritten_remainder_changes_no_more_than_the_remainder() {
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
