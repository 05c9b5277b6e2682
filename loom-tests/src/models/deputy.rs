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
use crate::engine::deputy::{Deputy, INTERVAL, Seen};
use crate::engine::leader::Leads;
use crate::sync::Arc;
use crate::sync::thread;

/// What the leader and one own thread share.
struct Service {
    deputy: Deputy,
    alarms: Alarms,
}

impl Service {
    fn enter(&self) -> Leads {
        self.deputy.enter(&self.alarms)
    }

    fn leave(&self, inside: Leads) -> bool {
        self.alarms.leader.leave(inside)
    }
}

/// The own thread.
struct Own {
    service: Arc<Service>,
    now: Instant,
    seen: Seen,
    leads: bool,
}

impl Own {
    fn new() -> Self {
        let service = Service { deputy: Deputy::new(), alarms: Alarms::new(2) };
        service.alarms.get(1).attach();
        Self { service: Arc::new(service), now: Instant::now(), seen: None, leads: false }
    }

    /// Looks when the next look is due.
    fn look(&mut self) -> Option<Duration> {
        let next = self.service.deputy.look(1, &self.service.alarms, &mut self.seen, self.now, || self.leads = true);
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
        let leader = thread::spawn(move || _ = service.enter());
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
            let inside = own.service.enter();
            own.look();
            assert!(!own.leads, "it has entered other code since the last look");
            assert!(own.service.leave(inside));
        }
        own.look();
        let service = own.service.clone();
        let leader = thread::spawn(move || _ = service.enter());
        own.run();
        leader.join().unwrap();
    });
}

/// The deputy calls foreign code itself while the leader enters. No third thread can be the deputy meanwhile.
#[test]
fn a_deputy_that_calls_foreign_code_stays_the_deputy() {
    explore(|| {
        let mut own = Own::new();
        let inside = own.service.enter();
        assert!(own.service.leave(inside));
        let service = own.service.clone();
        let leader = thread::spawn(move || _ = service.enter());
        own.service.deputy.replace(1, &own.service.alarms);
        own.run();
        leader.join().unwrap();
    });
}

/// The leader leaves the foreign code while its deputy takes it for stuck, and a caller wakes whoever leads.
#[test]
fn one_thread_leads() {
    explore(|| {
        let mut own = Own::new();
        let (service, caller, inside) = (own.service.clone(), own.service.clone(), own.service.enter());
        own.look();
        let leader = thread::spawn(move || service.leave(inside));
        let caller = thread::spawn(move || caller.alarms.wake_by(LEADER, 0));
        own.look();
        caller.join().unwrap();
        let leads = leader.join().unwrap();
        assert_eq!((leads, own.service.alarms.leader.number()), (!own.leads, u32::from(own.leads)));
    });
}
