//! Roles on loan together with a pool's queue.
//!
//! The queue, the seats, the alarms and the roles are the crate's. So is the order of calls in which a role is lent, a
//! worker drives, and the own thread gets the role back: it is in `src/engine/seat.rs`. The rest follows
//! `src/shard/driver/{thread,drivers,lending}.rs`, which need clocks and threads of the system. A list of callbacks
//! replaces the wheel, and every batch is lent.
//!
//! Each callback that was pushed runs once, unless a close comes first. One thread drives a shard at a time. At the end
//! no worker, role or job is left. Otherwise shuttle finds a deadlock, or an assertion fails.
//!
//! Fails under mutations: `lending-seat-not-reclaimed`, `lending-look-ignored`,
//! `lending-worker-not-attached`, `lending-own-not-attached`, `role-empty-slot-due`.

use std::cell::Cell;
use std::collections::VecDeque;
use std::time::Duration;

use shuttle::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use shuttle::thread::{self, JoinHandle};

use super::pool::{Barrier, Callback, Callbacks, Pool};
use super::{explore, explore_fairly};
use crate::engine::alarm::Alarms;
use crate::engine::role::{self, Driven, Next, Slot, Turn, with_driver};
use crate::engine::seat::Seat;
use crate::engine::wakeup::DriverWakeup;
use crate::executor::{self, Batch, Holder};
use crate::sync::thread::Thread;
use crate::sync::{Arc, Mutex, Parker};

/// Interval at which an own thread checks whether the worker has come back.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);
/// The tick at which all callbacks are due.
const DUE: u64 = 1;
/// The maximum number of callbacks that expire in one turn.
const TURN: usize = 2;

/// Some shards with their own threads, and a pool.
struct Service {
    pool: Arc<Pool>,
    shards: Vec<Arc<Shard>>,
    alarms: Arc<Alarms>,
    seats: Vec<Seat<Role>>,
    /// How long a worker sleeps before it gives the role up. `None`: until it is needed.
    pause: Option<Duration>,
    pushed: AtomicUsize,
    run: Arc<AtomicUsize>,
}

/// A shard whose timers are callbacks that are due at once.
struct Shard {
    wakeup: DriverWakeup,
    slot: Slot<Driver>,
    intake: Mutex<VecDeque<Callback>>,
    is_driven: AtomicBool,
    closing: AtomicBool,
    has_ended: AtomicBool,
}

/// The driver of a shard.
struct Driver;

struct Role {
    number: u32,
    last: usize,
}

/// A role on loan, as the worker sees it.
struct Loan {
    service: Arc<Service>,
    number: u32,
    own: Thread,
}

impl Driven for Shard {
    type Expired = Vec<Callback>;
    type Driver = Driver;

    fn wakeup(&self) -> &DriverWakeup {
        &self.wakeup
    }

    fn slot(&self) -> &Slot<Driver> {
        &self.slot
    }

    fn due_tick(&self) -> u64 {
        DUE
    }

    fn turn(&self, _: &mut Driver, _: bool) -> Turn<Vec<Callback>> {
        assert!(!self.is_driven.swap(true, Ordering::SeqCst), "two threads drive a shard");
        let turn = self.step();
        self.is_driven.store(false, Ordering::SeqCst);
        turn
    }

    fn driver_ended(&self) {
        assert!(!self.has_ended.swap(true, Ordering::SeqCst), "a driver ends twice");
    }
}

impl Shard {
    fn step(&self) -> Turn<Vec<Callback>> {
        if self.closing.load(Ordering::SeqCst) {
            return Turn::Closed;
        }
        let mut intake = self.intake.lock().unwrap();
        let expired: Vec<_> = (0..TURN).map_while(|_| intake.pop_front()).collect();
        drop(intake);
        if !expired.is_empty() {
            return Turn::Expired(expired);
        }
        let is_idle = || self.intake.lock().unwrap().is_empty() && !self.closing.load(Ordering::SeqCst);
        if self.wakeup.fall_asleep(0, u64::MAX, is_idle) { Turn::Asleep { has_work: false } } else { Turn::More }
    }
}

impl Service {
    /// Starts a service with this number of shards, all of the first role, and as many own threads.
    ///
    /// The first role is lent with each batch. The other own threads dispatch.
    fn start(pool: &Arc<Pool>, shards: usize, pause: Option<Duration>) -> (Arc<Self>, Vec<JoinHandle<()>>) {
        let alarms = Arc::new(Alarms::new(shards));
        let shard = |_| {
            Arc::new(Shard {
                wakeup: DriverWakeup::new(alarms.clone(), 0),
                slot: Slot::new(Driver),
                intake: Mutex::default(),
                is_driven: AtomicBool::new(false),
                closing: AtomicBool::new(false),
                has_ended: AtomicBool::new(false),
            })
        };
        let service = Arc::new(Self {
            pool: pool.clone(),
            shards: (0..shards).map(shard).collect(),
            alarms: alarms.clone(),
            seats: (0..shards).map(|_| Seat::new()).collect(),
            pause,
            pushed: AtomicUsize::new(0),
            run: Arc::default(),
        });
        let threads = (0..shards as u32).map(|number| {
            let service = service.clone();
            thread::spawn(move || service.drive(number))
        });
        let threads = threads.collect();
        (service, threads)
    }

    /// Schedules a callback that is due at once.
    fn push(&self, shard: usize, callback: impl Fn(&Pool) + Send + Sync + 'static) {
        self.pushed.fetch_add(1, Ordering::SeqCst);
        let (run, has_run) = (self.run.clone(), AtomicBool::new(false));
        let once: Callback = Box::new(move |pool| {
            assert!(!has_run.swap(true, Ordering::SeqCst), "a callback runs twice");
            callback(pool);
            run.fetch_add(1, Ordering::SeqCst);
        });
        self.shards[shard].intake.lock().unwrap().push_back(once);
        self.shards[shard].wakeup.wake_by(DUE);
    }

    fn push_all(&self, shard: usize, callbacks: usize) {
        (0..callbacks).for_each(|_| self.push(shard, |_| ()));
    }

    /// Waits until all callbacks have run.
    fn wait(&self) {
        while self.run.load(Ordering::SeqCst) < self.pushed.load(Ordering::SeqCst) {
            thread::yield_now();
        }
    }

    fn close(&self) {
        for shard in &self.shards {
            shard.closing.store(true, Ordering::SeqCst);
            shard.wakeup.wake_by(0);
        }
        self.alarms.wake_all();
    }

    /// Closes the service, and asserts that nothing is left.
    fn shut_down(self: Arc<Self>, own: Vec<JoinHandle<()>>, workers: Vec<JoinHandle<()>>) {
        self.close();
        own.into_iter().for_each(|thread| thread.join().unwrap());
        self.pool.clone().shut_down(workers);
        let left: usize = self.shards.iter().map(|shard| shard.intake.lock().unwrap().len()).sum();
        assert_eq!(self.run.load(Ordering::SeqCst) + left, self.pushed.load(Ordering::SeqCst));
        assert_eq!(Arc::strong_count(&self), 1, "a job or a role is left");
    }

    fn shards_of(&self, role: u32) -> &[Arc<Shard>] {
        let first = role as usize;
        if role == 0 { &self.shards } else { &self.shards[first..=first] }
    }

    fn are_closed(&self, role: u32) -> bool {
        self.shards_of(role).iter().all(|shard| shard.closing.load(Ordering::SeqCst))
    }

    /// The loop of an own thread: `OwnThread::run`.
    fn drive(self: &Arc<Self>, number: u32) {
        self.alarms.get(number).attach();
        let mut role = Some(Role { number, last: 0 });
        while let Some(mut current) = role.take().or_else(|| self.wait_for_role(number)) {
            let is_over = self.are_closed(number);
            match self.next(&mut current) {
                Some(expired) => role = self.deliver(expired, current),
                None if is_over => break,
                None => {
                    self.sleep(&current, None, |parker, timeout| {
                        parker.park(timeout);
                        false
                    });
                    role = Some(current);
                }
            }
        }
        for shard in self.shards_of(number) {
            with_driver(&**shard, number, |driver| shard.turn(driver, true));
        }
    }

    /// `Drivers::next`.
    fn next(&self, role: &mut Role) -> Option<Callbacks> {
        let (shards, mut expired) = (self.shards_of(role.number), Vec::new());
        while expired.len() < TURN {
            match role::next(shards, role.number, &mut role.last, expired.is_empty()) {
                Next::Expired(turned) => {
                    role::handed_out(&*shards[role.last], role.number);
                    expired.extend(turned);
                }
                Next::Turned => {}
                Next::Idle => break,
            }
        }
        (!expired.is_empty()).then(|| Callbacks::new(&self.pool, expired))
    }

    /// `OwnThread::deliver` and `OwnThread::lend`.
    fn deliver(self: &Arc<Self>, expired: Callbacks, role: Role) -> Option<Role> {
        let (number, queue, now) = (role.number, &self.pool.queue, self.pool.now());
        self.pool.check_in_time();
        if number > 0 {
            queue.push(Arc::new(expired), None, now);
            return Some(role);
        }
        let loan = Loan { service: self.clone(), number, own: crate::sync::thread::current() };
        self.seats[number as usize].lend(role, || queue.push(Arc::new(expired), Some(&(Arc::new(loan) as _)), now))
    }

    /// `Drivers::sleep`.
    fn sleep(&self, role: &Role, longest: Option<Duration>, mut park: impl FnMut(&Parker, Option<Duration>) -> bool) {
        let ends = longest.map(|longest| self.pool.now() + longest);
        let shards = self.shards_of(role.number);
        let earliest = || if self.are_closed(role.number) { 0 } else { role::earliest(shards, role.number) };
        let is_needed = Cell::new(false);
        let timeout = |tick| {
            let is_over = tick <= DUE || is_needed.get();
            if is_over { Some(Duration::ZERO) } else { ends.map(|at| at.saturating_duration_since(self.pool.now())) }
        };
        self.alarms.get(role.number).sleep(earliest, timeout, |parker, timeout| is_needed.set(park(parker, timeout)));
    }

    /// `OwnThread::wait_for_role`.
    fn wait_for_role(&self, number: u32) -> Option<Role> {
        let mut looked = self.pool.now();
        let pause = || {
            self.pool.queue.check(self.pool.now());
            self.pool.park(Some(CHECK_INTERVAL));
            let now = self.pool.now();
            let is_look = now >= looked + CHECK_INTERVAL;
            if is_look {
                looked = now;
            }
            is_look
        };
        let role = self.seats[number as usize].wait(self.alarms.get(number), || self.are_closed(number), pause)?;
        self.pool.check_in_time();
        Some(role)
    }
}

impl executor::Role for Loan {
    fn next_batch(&self, holder: &dyn Holder) -> Option<Arc<dyn Batch>> {
        let seat = &self.service.seats[self.number as usize];
        let drive = |role: &mut Role| self.drive(role, holder);
        let hand_out = |expired| Some(Arc::new(expired) as Arc<dyn Batch>);
        seat.drive(self.service.alarms.get(self.number), drive, hand_out, |role| self.return_role(role))
    }

    fn give_up(&self) {
        if let Some(role) = self.service.seats[self.number as usize].take() {
            self.return_role(role);
        }
    }
}

impl Loan {
    fn drive(&self, role: &mut Role, holder: &dyn Holder) -> Option<Callbacks> {
        while !self.service.are_closed(self.number) {
            let expired = self.service.next(role);
            if expired.is_some() {
                return expired;
            }
            let (ends, mut is_needed) = (self.service.pause.map(|pause| self.service.pool.now() + pause), false);
            self.service.sleep(role, self.service.pause, |_, timeout| {
                is_needed |= holder.park(timeout);
                is_needed
            });
            if is_needed || ends.is_some_and(|ends| self.service.pool.now() >= ends) {
                break;
            }
        }
        None
    }

    fn return_role(&self, role: Role) {
        self.service.seats[self.number as usize].give_up(role);
        self.own.unpark();
    }
}

const PAUSES: [Option<Duration>; 2] = [None, Some(Duration::from_micros(500))];

/// Two threads push to two shards, which fold and unfold meanwhile. So both the first role, which is lent, and the
/// second one drive.
fn timers_run(pause: Option<Duration>) {
    let (pool, workers) = Pool::start(2);
    let (service, own) = Service::start(&pool, 2, pause);
    let callers = [0, 1].map(|shard| {
        let service = service.clone();
        thread::spawn(move || (0..3).for_each(|step| service.push_all((shard + step) % 2, 1 + step)))
    });
    let folds = service.clone();
    let folds = thread::spawn(move || {
        for (from, to) in [(0, 1), (1, 0), (0, 1)] {
            folds.shards[1].wakeup.change_role(from, to);
            thread::yield_now();
        }
    });
    callers.into_iter().for_each(|caller| caller.join().unwrap());
    folds.join().unwrap();
    service.wait();
    service.shut_down(own, workers);
}

#[test]
fn each_timer_runs_while_roles_are_lent() {
    explore(|| timers_run(PAUSES[0]));
    explore(|| timers_run(PAUSES[1]));
}

/// A callback waits for one of its own batch, and both for one that expires later, of the same shard or of another.
#[test]
fn a_role_is_taken_from_a_worker_that_does_not_come_back() {
    explore(|| {
        let (pool, workers) = Pool::start(3);
        let (service, own) = Service::start(&pool, 2, None);
        service.push_all(0, 1);
        for last in 0..2 {
            let (all, begun) = (Barrier::new(3), Barrier::new(3));
            for _ in 0..2 {
                let (all, begun) = (all.clone(), begun.clone());
                service.push(0, move |_| {
                    drop(begun.arrive());
                    all.wait();
                });
            }
            begun.wait();
            let all = all.clone();
            service.push(last, move |_| all.wait());
            service.wait();
        }
        service.shut_down(own, workers);
    });
}

/// Workers that sleep with a role are needed for jobs, which wait for each other, and for a callback of the role.
#[test]
fn a_worker_that_sleeps_with_a_role_is_needed() {
    explore(|| {
        let (pool, workers) = Pool::start(2);
        let (service, own) = Service::start(&pool, 1, None);
        for _ in 0..2 {
            service.push_all(0, 2);
            service.wait();
            let jobs = Barrier::new(3);
            (0..2).for_each(|_| pool.push(vec![jobs.callback()]));
            jobs.wait();
            let both = Barrier::new(2);
            pool.push(vec![both.callback()]);
            service.push(0, move |_| both.wait());
            service.wait();
        }
        service.shut_down(own, workers);
    });
}

/// All workers wait in callbacks. Extra ones run the rest, and give roles up.
#[test]
fn extra_workers_give_roles_up() {
    explore_fairly(|| {
        let (pool, workers) = Pool::start_with(1, 3);
        let (service, own) = Service::start(&pool, 1, PAUSES[1]);
        let all = Barrier::new(3);
        for _ in 0..3 {
            let all = all.clone();
            service.push(0, move |_| all.wait_asleep());
        }
        service.wait();
        service.push_all(0, 2);
        service.wait();
        service.shut_down(own, workers);
    });
}

/// A close comes in any phase. What has not expired by then does not run.
#[test]
fn a_close_ends_each_role_and_each_loan() {
    explore(|| {
        let (pool, workers) = Pool::start(2);
        let (service, own) = Service::start(&pool, 2, None);
        let closer = service.clone();
        let caller = service.clone();
        let caller = thread::spawn(move || (0..4).for_each(|step| caller.push_all(step % 2, 2)));
        let closer = thread::spawn(move || {
            closer.shards[1].wakeup.change_role(0, 1);
            thread::yield_now();
            closer.close();
        });
        caller.join().unwrap();
        closer.join().unwrap();
        service.shut_down(own, workers);
    });
}
