//! `Gate`: how often a thread that drives begins to expire timers.
//!
//! Where timers are sparse, each is worth a wake-up of its own, and is on time. Where they are dense, one wake-up serves
//! all that become due within a *slack*. So a thread has one *opening* for each slack, of which [`BURST`] may come early.
//! This is the generic cell rate algorithm (ITU-T I.371): a token bucket of two words.
//!
//! A round that expires nothing, because its timers were cancelled or reset, or for chores, wakes the thread as
//! well. It costs at most a millisecond of a longer slack, so that such rounds do not use up the openings of timers.
//!
//! While the gate is closed, what becomes due waits, and the thread sleeps on: the tick at which the gate opens is the
//! *floor* of its sleep. Once it is open, a round goes to the present, so timers keep the order of their ticks. A shard
//! that is awake passes in any case. It is in the middle of a round, or has a timer that was due when it was set.

/// Number of openings that may come at once.
const BURST: u64 = 50;

/// The gate of one thread. All its times are ticks.
#[derive(Clone)]
pub(crate) struct Gate {
    slack: u64,
    /// What a round that expires nothing costs of it.
    futile: u64,
    /// When it was opened last.
    opened: u64,
    /// By when the bucket is full again.
    full_at: u64,
}

impl Gate {
    /// Creates a gate that is always open if `slack` is zero. A round that expires nothing costs `futile` of the slack.
    pub(crate) fn new(slack: u64, futile: u64) -> Self {
        Self { slack: slack.min(u64::MAX / (2 * BURST)), futile, opened: 0, full_at: 0 }
    }

    /// Returns the tick from which on the gate is open.
    pub(crate) fn opens_at(&self) -> u64 {
        self.full_at.saturating_sub((BURST - 1) * self.slack)
    }

    /// Returns by which tick timers are due at the tick `now`.
    pub(crate) fn due_tick(&self, now: u64) -> u64 {
        if now >= self.opens_at() { now } else { self.opened }
    }

    /// Records a round for what was due by the tick `due`, which [`due_tick`](Self::due_tick) has returned.
    pub(crate) fn pass(&mut self, due: u64, has_expired: bool) {
        if due > self.opened {
            let cost = if has_expired { self.slack } else { self.futile.min(self.slack) };
            self.opened = due;
            self.full_at = self.full_at.max(due).saturating_add(cost);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Opens the gate at each of these ticks at which something is due and it is open. Returns how often.
    fn openings(gate: &mut Gate, ticks: impl Iterator<Item = u64>) -> u64 {
        let mut opened = 0;
        for now in ticks {
            let due = gate.due_tick(now);
            assert!(due == now || due == gate.opened && now < gate.opens_at());
            opened += u64::from(due > gate.opened);
            gate.pass(due, true);
        }
        opened
    }

    #[test]
    fn sparse_timers_are_not_held_back() {
        let gate = &mut Gate::new(50, 50);
        assert_eq!(openings(gate, (1..1000).map(|at| 50 * at)), 999);
        let bursts = (0..20).flat_map(|burst| (1..=50).map(move |at| (burst + 10) * 10_000 + at));
        assert_eq!(openings(gate, bursts), 1000);
    }

    #[test]
    fn dense_timers_get_one_opening_for_each_slack_after_a_burst() {
        let gate = &mut Gate::new(50, 50);
        assert_eq!(openings(gate, 1..=51), 51);
        assert!((52..=100).all(|now| gate.due_tick(now) == 51));
        for second in 1..10 {
            let opened = openings(gate, second * 50_000 + 1..=(second + 1) * 50_000);
            assert!((1000..=1050).contains(&opened), "{opened}");
        }
    }

    #[test]
    fn a_round_goes_on_behind_a_closed_gate() {
        let gate = &mut Gate::new(1000, 50);
        assert_eq!(openings(gate, 1..=60), 50);
        assert_eq!((gate.due_tick(60), gate.opens_at()), (50, 1001));
    }

    #[test]
    fn rounds_that_expire_nothing_use_up_no_long_slack() {
        let gate = &mut Gate::new(1000, 5);
        for now in (10..100_000).step_by(10) {
            assert_eq!(gate.due_tick(now), now);
            gate.pass(now, false);
        }
        assert_eq!(openings(gate, 100_001..=100_100), 50);
        let (short, other) = (&mut Gate::new(5, 50), &mut Gate::new(5, 50));
        for now in 1..=200 {
            short.pass(short.due_tick(now), false);
            other.pass(other.due_tick(now), true);
            assert_eq!(short.opens_at(), other.opens_at());
        }
    }

    #[test]
    fn without_slack_it_is_always_open() {
        assert_eq!(openings(&mut Gate::new(0, 5), 1..=10_000), 10_000);
    }

    #[test]
    fn the_longest_slack_overflows_nothing() {
        let gate = &mut Gate::new(u64::MAX, u64::MAX);
        assert_eq!(openings(gate, (1..=100).chain([1 << 60, u64::MAX - 2])), 52);
    }
}
