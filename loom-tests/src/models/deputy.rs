//! Explores the deputy: a thread that looks whether the leader is stuck in foreign code.
//!
//! The leader calls foreign code, and at last some that does not return. Its deputy looks, resigns and sleeps. Each look
//! comes when it is due: time does not delay it.
//!
//! Invariant: a leader that is stuck is noticed, whether its deputy resigns or falls asleep meanwhile. One that has left
//! the foreign code since the last look does not count as stuck. A leader that is stuck does not keep a shard, and one
//! that is not has the first.

use std::iter;
use std::time::{Duration, Instant};

use super::explore;
use crate::engine::alarm::Alarms;
use crate::engine::deputy::{Deputy, INTERVAL, Seen};
use crate::engine::wakeup::{DriverWakeup, LEADER, PROGRAM};
use crate::sync::Arc;
use crate::sync::thread;

/// What the leader and one own thread share.
struct Service {
    deputy: Deputy,
    alarms: Arc<Alarms>,
    /// A shard.
    wakeup: DriverWakeup,
}

impl Service {
    fn enter(&self) {
        self.deputy.enter(&self.alarms);
    }

    fn leave(&self) {
        self.deputy.leave(iter::once(&self.wakeup));
    }

    fn give(&self, from: u32, to: [u32; 2]) {
        self.deputy.give(&self.wakeup, from, to);
    }
}

/// The own thread.
struct Own {
    service: Arc<Service>,
    now: Instant,
    seen: Seen,
    is_stuck: bool,
}

impl Own {
    /// The shard has this role at first.
    fn new(role: u32) -> Self {
        let alarms = Arc::new(Alarms::new(2));
        let wakeup = DriverWakeup::new(alarms.clone(), role);
        let service = Service { deputy: Deputy::new(), alarms, wakeup };
        service.alarms.get(1).attach();
        Self { service: Arc::new(service), now: Instant::now(), seen: None, is_stuck: false }
    }

    /// Looks when the next look is due.
    fn look(&mut self) -> Option<Duration> {
        let next = self.service.deputy.look(1, &mut self.seen, self.now, || self.is_stuck = true);
        self.now += next.unwrap_or(INTERVAL);
        next
    }

    /// Looks, and sleeps, until the leader is stuck.
    fn run(&mut self) {
        loop {
            let next = self.look();
            if self.is_stuck {
                return;
            }
            let must_look = || if self.service.deputy.must_look(1, next) { 0 } else { u64::MAX };
            let timeout = |tick| (tick == 0 || next.is_some()).then_some(Duration::ZERO);
            self.service.alarms.get(1).sleep(must_look, timeout);
        }
    }
}

/// The leader appoints a thread that is about to sleep.
#[test]
fn a_thread_that_falls_asleep_is_appointed() {
    explore(|| {
        let mut own = Own::new(LEADER);
        let service = own.service.clone();
        let leader = thread::spawn(move || service.enter());
        own.run();
        leader.join().unwrap();
    });
}

/// The deputy resigns, because the leader has left the foreign code, while the leader enters other code.
#[test]
fn a_deputy_resigns_while_the_leader_enters() {
    explore(|| {
        let mut own = Own::new(LEADER);
        for _ in 0..2 {
            own.service.enter();
            own.look();
            assert!(!own.is_stuck, "it has entered other code since the last look");
            own.service.leave();
        }
        own.look();
        let service = own.service.clone();
        let leader = thread::spawn(move || service.enter());
        own.run();
        leader.join().unwrap();
    });
}

/// A shard goes to the leader, from a thread or from a program, while the leader enters foreign code. Whoever is late takes
/// it back.
#[test]
fn a_stuck_leader_keeps_no_shard() {
    for from in [1, PROGRAM] {
        explore(move || {
            let mut own = Own::new(from);
            let (leader, gives) = (own.service.clone(), own.service.clone());
            let leader = thread::spawn(move || leader.enter());
            let gives = thread::spawn(move || gives.give(from, [LEADER, 1]));
            own.run();
            own.service.give(LEADER, [1, LEADER]);
            leader.join().unwrap();
            gives.join().unwrap();
            assert_eq!(own.service.wakeup.role(), 1);
        });
    }
}

/// The leader leaves the foreign code while its deputy takes its shard away, or a program gives it back.
#[test]
fn a_leader_that_returns_has_the_first_shard() {
    for (from, to) in [(LEADER, [1, LEADER]), (PROGRAM, [LEADER, 1])] {
        explore(move || {
            let own = Own::new(from);
            own.service.enter();
            let service = own.service.clone();
            let gives = thread::spawn(move || service.give(from, to));
            own.service.leave();
            gives.join().unwrap();
            assert_eq!(own.service.wakeup.role(), LEADER);
        });
    }
}
