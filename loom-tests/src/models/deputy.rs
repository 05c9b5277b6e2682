//! Explores the deputy: a thread that looks whether the leader is stuck in foreign code.
//!
//! The leader calls foreign code, and at last some that does not return. Its deputy looks, resigns and sleeps. Each look
//! comes when it is due: time does not delay it.
//!
//! Invariant: a leader that is stuck is succeeded, whether its deputy resigns or falls asleep meanwhile. One that has left
//! the foreign code since the last look does not count as stuck. One thread leads.

use std::time::{Duration, Instant};

use super::explore;
use crate::engine::alarm::{Alarms, LEADER};
use crate::engine::deputy::{INTERVAL, Seen};
use crate::sync::Arc;
use crate::sync::thread;

/// An own thread.
struct Own {
    number: u32,
    alarms: Arc<Alarms>,
    now: Instant,
    seen: Seen,
    leads: bool,
}

impl Own {
    fn new() -> Self {
        Self::of(2, 1)
    }

    /// One of a number of threads.
    fn of(threads: usize, number: u32) -> Self {
        let alarms = Arc::new(Alarms::new(threads));
        alarms.get(number).attach();
        Self { number, alarms, now: Instant::now(), seen: None, leads: false }
    }

    /// Looks when the next look is due.
    fn look(&mut self) -> Option<Duration> {
        let next = self.alarms.look(self.number, &mut self.seen, self.now, || self.leads = true);
        self.now += next.unwrap_or(INTERVAL);
        next
    }

    /// Looks, and sleeps, until it leads.
    fn run(&mut self) {
        loop {
            let next = self.look();
            if self.leads {
                return;
            }
            let must_look = || if self.alarms.must_look(self.number, next) { 0 } else { u64::MAX };
            let timeout = |tick| (tick == 0 || next.is_some()).then_some(Duration::ZERO);
            self.alarms.get(self.number).sleep(must_look, timeout);
        }
    }
}

/// The leader appoints a thread that is about to sleep.
#[test]
fn a_thread_that_falls_asleep_is_appointed() {
    explore(|| {
        let mut own = Own::new();
        let alarms = own.alarms.clone();
        let leader = thread::spawn(move || alarms.enter(0));
        own.run();
        leader.join().unwrap();
    });
}

/// The deputy resigns, because the leader has left the foreign code, while the leader enters other code.
#[test]
fn a_deputy_resigns_while_the_leader_enters() {
    explore(|| {
        let mut own = Own::new();
        for _ in 0..2 {
            own.alarms.enter(0);
            own.look();
            assert!(!own.leads, "it has entered other code since the last look");
            assert!(own.alarms.leave(0));
        }
        own.look();
        let alarms = own.alarms.clone();
        let leader = thread::spawn(move || alarms.enter(0));
        own.run();
        leader.join().unwrap();
    });
}

/// The deputy calls foreign code itself while the leader enters. No third thread can be the deputy meanwhile.
#[test]
fn a_deputy_that_calls_foreign_code_stays_the_deputy() {
    explore(|| {
        let mut own = Own::new();
        own.alarms.enter(0);
        assert!(own.alarms.leave(0));
        let alarms = own.alarms.clone();
        let leader = thread::spawn(move || alarms.enter(0));
        own.alarms.enter(1);
        own.run();
        leader.join().unwrap();
    });
}

/// A thread that wakes up, perhaps as the deputy, calls foreign code that does not return. Meanwhile the leader enters, and
/// a third thread falls asleep.
#[test]
fn a_thread_that_is_stuck_is_not_the_deputy() {
    for is_deputy in [false, true] {
        explore(move || {
            let mut own = Own::of(3, 2);
            let (alarms, other) = (own.alarms.clone(), own.alarms.clone());
            if is_deputy {
                alarms.enter(0);
                assert!(alarms.look(1, &mut None, own.now, || unreachable!("its first look")).is_some());
                assert!(alarms.leave(0));
            }
            let leader = thread::spawn(move || alarms.enter(0));
            let other = thread::spawn(move || {
                other.get(1).attach();
                other.get(1).sleep(|| 0, |_| Some(Duration::ZERO));
                other.enter(1);
            });
            own.run();
            other.join().unwrap();
            leader.join().unwrap();
        });
    }
}

/// The deputy calls foreign code, and appoints a thread that wakes up and calls some that does not return. Meanwhile the
/// leader leaves its own, and enters other code.
#[test]
fn an_appointment_is_taken_back_although_the_leader_has_left() {
    explore(|| {
        let mut own = Own::of(3, 1);
        let (alarms, other) = (own.alarms.clone(), own.alarms.clone());
        alarms.enter(0);
        assert!(own.look().is_some());
        let leader = thread::spawn(move || {
            alarms.leave(0);
            alarms.enter(0);
        });
        let other = thread::spawn(move || {
            other.get(2).attach();
            other.get(2).sleep(|| 0, |_| Some(Duration::ZERO));
            other.enter(2);
        });
        own.alarms.enter(1);
        own.seen = None;
        own.run();
        other.join().unwrap();
        leader.join().unwrap();
    });
}

/// The leader leaves the foreign code while its deputy takes it for stuck. A caller wakes the leader meanwhile.
#[test]
fn one_thread_leads() {
    explore(|| {
        let mut own = Own::new();
        let (alarms, caller) = (own.alarms.clone(), own.alarms.clone());
        own.alarms.enter(0);
        own.look();
        let leader = thread::spawn(move || alarms.leave(0));
        let caller = thread::spawn(move || caller.get(LEADER).wake_by(0));
        own.look();
        caller.join().unwrap();
        assert_ne!(leader.join().unwrap(), own.leads);
    });
}
