//! Explores a role that is lent to workers.
//!
//! The types ensure that one thread has the role. The model explores its way: a worker takes it, puts it back while
//! callbacks run, and gives it up; a late worker may find what another has put back; the own thread reclaims it. Time
//! does not advance: the own thread polls instead.
//!
//! Invariant: each push wakes the thread that has the role, each push is handled, and the role comes back to its own
//! thread. The own thread reclaims a role that was not given up only if no worker has had it since the last look.
//!
//! Fails under mutations:
//!
//! - `seat-give-up-not-marked`: the own thread does not see that the role was given up;
//! - `seat-puts-not-counted`, `seat-reclaim-any`, `seat-always-given-up`: the own thread reclaims a role that a
//!   worker had since the last look;
//! - `seat-never-reclaimed`: the own thread does not reclaim a role that lies in the seat;
//! - `alarm-attached-not-released`, `alarm-attached-not-acquired`: a push may wake the thread that had the role
//!   before.

use std::sync::atomic::{AtomicUsize as PlainCount, Ordering::Relaxed as Plain};

use super::explore;
use crate::engine::role::Next;
use crate::engine::seat::Seat;
use crate::fixture::Roles;
use crate::race_detector::RaceDetector;
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{Arc, Parker};

/// The role of a shard, which its own thread lends.
#[derive(Clone)]
struct Lending(Arc<State>);

struct State {
    roles: Roles,
    seat: Seat<RaceDetector>,
    /// The own thread while it waits for the role.
    own: Parker,
    /// How often a worker took the role, and gave it up. Of `std`, as those of `Counts`.
    takes: PlainCount,
    returns: PlainCount,
}

impl Lending {
    /// Lends a role whose shard has this many pushes, and `expected` in the end.
    fn new(pushes: usize, expected: u64) -> Self {
        let roles = Roles::new(&[0], expected);
        (0..pushes).for_each(|_| roles.push(0));
        let (seat, own) = (Seat::new(), Parker::new());
        own.attach();
        seat.put(RaceDetector::default());
        Self(Arc::new(State { roles, seat, own, takes: PlainCount::new(0), returns: PlainCount::new(0) }))
    }

    fn spawn(&self, f: impl FnOnce(&Self) + Send + 'static) -> JoinHandle<()> {
        let this = self.clone();
        thread::spawn(move || f(&this))
    }

    fn take(&self) -> Option<RaceDetector> {
        let role = self.0.seat.take()?;
        self.0.takes.fetch_add(1, Plain);
        role.write();
        self.0.roles.alarm(0).attach();
        Some(role)
    }

    fn give_up(&self, role: RaceDetector) {
        self.0.seat.give_up(role);
        self.0.returns.fetch_add(1, Plain);
        self.0.own.unpark();
    }

    /// What a worker does. It puts the role back after each push, and gives it up when nothing is due.
    fn work(&self) {
        while let Some(role) = self.take() {
            loop {
                match self.0.roles.turn(0) {
                    Next::Expired(()) => break self.0.seat.put(role),
                    Next::Turned => {}
                    Next::Idle => return self.give_up(role),
                }
            }
        }
    }

    /// Waits until a worker has given up the role.
    fn wait(&self) -> RaceDetector {
        loop {
            match self.0.seat.reclaim(None) {
                Ok(role) => return role,
                Err(_) => self.0.own.park(None),
            }
        }
    }
}

/// A worker has the role, and then the own thread. A push wakes each of them from its sleep.
#[test]
fn a_push_wakes_the_thread_that_has_the_role() {
    explore(|| {
        let lending = Lending::new(0, 2);
        let worker = lending.spawn(|lending| {
            let role = lending.take().expect("the own thread does not poll");
            lending.0.roles.drive_until(0, || lending.0.roles.handled() > 0);
            lending.give_up(role);
        });
        lending.0.roles.push(0);
        lending.wait().write();
        let caller = lending.spawn(|lending| lending.0.roles.push(0));
        lending.0.roles.drive(0);
        worker.join().unwrap();
        caller.join().unwrap();
    });
}

/// A caller wakes the role, whose thread finds nothing new, and then pushes. The thread has attached itself after
/// another.
#[test]
fn a_caller_wakes_the_thread_that_attached_itself_last() {
    explore(|| {
        let roles = Roles::new(&[0], 1);
        roles.alarm(0).attach();
        roles.turns(0);
        let caller = roles.spawn(|roles| {
            roles.wakeup(0).wake_role();
            roles.push(0);
        });
        roles.drive(0);
        caller.join().unwrap();
    });
}

/// Two workers, one of which is late. The role comes back to the own thread, which handles what is left.
#[test]
fn a_late_worker_takes_the_role_that_another_put_back() {
    explore(|| {
        let lending = Lending::new(2, 2);
        let workers = [(); 2].map(|()| lending.spawn(Lending::work));
        lending.wait().write();
        lending.0.roles.drive(0);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
}

/// A worker runs long callbacks, so the own thread polls. Another worker comes late.
#[test]
fn a_role_that_lies_in_the_seat_is_reclaimed() {
    explore(|| {
        let lending = Lending::new(1, 1);
        let late = lending.spawn(Lending::work);
        let (mut seen, mut at_look) = (None, (0, 0));
        let counts = || (lending.0.takes.load(Plain), lending.0.returns.load(Plain));
        let role = loop {
            match lending.0.seat.reclaim(seen) {
                Ok(role) => break role,
                Err(here) => (seen, at_look) = (here, counts()),
            }
            if seen.is_none() {
                lending.0.own.park(None);
            }
        };
        let ((takes, returns), (takes_at_look, returns_at_look)) = (counts(), at_look);
        assert!(takes == takes_at_look || returns > returns_at_look, "a worker has had the role since");
        role.write();
        lending.0.roles.drive(0);
        late.join().unwrap();
    });
}
