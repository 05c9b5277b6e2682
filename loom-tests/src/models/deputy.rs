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

/// The own thread.
struct Own {
    alarms: Arc<Alarms>,
    now: Instant,
    seen: Seen,
    leads: bool,
}

impl Own {
    fn new() -> Self {
        let alarms = Arc::new(Alarms::new(2));
        alarms.get(1).attach();
        Self { alarms, now: Instant::now(), seen: None, leads: false }
    }

    /// Looks when the next look is due.
    fn look(&mut self) -> Option<Duration> {
        let next = self.alarms.look(1, &mut self.seen, self.now, || self.leads = true);
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
            let must_look = || if self.alarms.must_look(1, next) { 0 } else { u64::MAX };
            let timeout = |tick| (tick == 0 || next.is_some()).then_some(Duration::ZERO);
            self.alarms.get(1).sleep(must_look, timeout);
        }
    }
}

/// The leader appoints a thread that is about to sleep.
#[test]
fn a_thread_that_falls_asleep_is_appointed() {
    explore(|| {
        let mut own = Own::new();
        let alarms = own.alarms.clone();
        let leader = thread::spawn(move || alarms.enter());
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
            own.alarms.enter();
            own.look();
            assert!(!own.leads, "it has entered other code since the last look");
            assert!(own.alarms.leave(0));
        }
        own.look();
        let alarms = own.alarms.clone();
        let leader = thread::spawn(move || alarms.enter());
        own.run();
        leader.join().unwrap();
    });
}

/// The deputy calls foreign code itself while the leader enters. No third thread can be the deputy meanwhile.
#[test]
fn a_deputy_that_calls_foreign_code_stays_the_deputy() {
    explore(|| {
        let mut own = Own::new();
        own.alarms.enter();
        assert!(own.alarms.leave(0));
        let alarms = own.alarms.clone();
        let leader = thread::spawn(move || alarms.enter());
        own.alarms.delegate(1);
        own.run();
        leader.join().unwrap();
    });
}

/// The leader leaves the foreign code while its deputy takes it for stuck. A caller wakes the leader meanwhile.
#[test]
fn one_thread_leads() {
    explore(|| {
        let mut own = Own::new();
        let (alarms, caller) = (own.alarms.clone(), own.alarms.clone());
        own.alarms.enter();
        own.look();
        let leader = thread::spawn(move || alarms.leave(0));
        let caller = thread::spawn(move || caller.wake_by(LEADER, 0));
        own.look();
        caller.join().unwrap();
        assert_ne!(leader.join().unwrap(), own.leads);
    });
}
