//! Explores the deputy: a thread that looks whether the leader is stuck in foreign code.
//!
//! The leader calls foreign code, and at last some that does not return. Its deputy looks, resigns and sleeps. Each look
//! comes when it is due: time does not delay it.
//!
//! Invariant: a leader that is stuck is noticed, whether its deputy resigns or falls asleep meanwhile. One that has left
//! the foreign code since the last look does not count as stuck.

use std::time::{Duration, Instant};

use super::explore;
use crate::engine::alarm::Alarms;
use crate::engine::deputy::{Deputy, INTERVAL, Seen};
use crate::sync::Arc;
use crate::sync::thread;

/// What the leader and one own thread share.
struct Service {
    deputy: Deputy,
    alarms: Alarms,
}

impl Service {
    fn enter(&self) {
        self.deputy.enter(&self.alarms);
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
    fn new() -> Self {
        let service = Service { deputy: Deputy::new(), alarms: Alarms::new(2) };
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
        let mut own = Own::new();
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
        let mut own = Own::new();
        for _ in 0..2 {
            own.service.enter();
            own.look();
            assert!(!own.is_stuck, "it has entered other code since the last look");
            own.service.deputy.leave();
        }
        own.look();
        let service = own.service.clone();
        let leader = thread::spawn(move || service.enter());
        own.run();
        leader.join().unwrap();
    });
}
