//! Explores timers that are due when they are set, against a driver that sleeps behind a closed gate.
//!
//! The gate opened last at tick `OPENED`, and not again: by any other deadline the driver never wakes. Time passes from
//! `OPENED` to `NOW` before a timer is set, at any moment of the driver's rounds.
//!
//! Invariant: such a timer runs.
//!
//! Promise: due now.

use std::mem;

use super::{Fixture, Handle, explore};
use crate::engine::alarm::{AWAKE, Sleeps};
use crate::engine::driver::ShardDriver;
use crate::engine::entry::DriverNotice;
use crate::engine::memory::Cache;
use crate::engine::seat::PROGRAM;
use crate::fixture::{LoopWaker, sleep_by};
use crate::sync::{Arc, AtomicU64, Ordering};

/// When the gate opened last.
const OPENED: u64 = 2;
/// A deadline that has come when another is set.
const OVERDUE: u64 = 3;
/// The tick at which timers are set, and their deadline.
const NOW: u64 = 5;

struct ClosedGate {
    fixture: Fixture,
    driver: ShardDriver,
    clock: Arc<AtomicU64>,
}

impl ClosedGate {
    fn new() -> Self {
        let fixture = Fixture::new();
        let driver = fixture.driver();
        Self { fixture, driver, clock: Arc::new(AtomicU64::new(OPENED)) }
    }

    /// Schedules a timer for `OVERDUE`.
    fn overdue(&self, cache: &mut Cache) -> Handle {
        self.fixture.schedule(cache, self.fixture.counts.once(), OVERDUE).unwrap()
    }

    /// Makes a round to the present, as `ShardDriver::turn` does.
    fn round(&mut self) {
        self.fixture.core.wakeup.begin_to_present();
        let clock = self.clock.clone();
        self.round_to(|| clock.load(Ordering::Relaxed));
    }

    fn round_to(&mut self, now: impl FnOnce() -> u64) {
        let core = &self.fixture.core;
        let mut now = Some(now);
        self.driver.advance_round(core, || now.take().expect("one reading of the clock a round")());
        while self.driver.in_round {
            self.driver.advance_round(core, || unreachable!("the round has begun"));
        }
        let batch: Vec<_> = mem::take(&mut self.driver.expired).into_all().collect();
        self.fixture.worker(self.driver.now).run(&batch);
    }

    /// Lets the shard sleep, unless something has come in. Returns whether it does.
    fn rest(&mut self) -> bool {
        let core = &self.fixture.core;
        core.wakeup.fall_asleep(self.driver.now, self.driver.next_round(), || core.intake.is_empty())
    }

    /// Makes a round at `OPENED`, and lets the shard sleep.
    fn link(&mut self) {
        self.round();
        self.rest();
    }

    /// Drives as an own thread does whose gate is closed, until a timer has run.
    fn drive(mut self) {
        let fixture = self.fixture.clone();
        let alarm = fixture.core.wakeup.alarm();
        alarm.bell.attach();
        while fixture.counts.run() == 0 {
            let wake_tick = || fixture.core.wakeup.wake_tick();
            if wake_tick() == AWAKE {
                fixture.core.wakeup.set_awake();
                self.round();
                self.rest();
            } else {
                sleep_by(alarm, u64::MAX - 1, || NOW, wake_tick);
            }
        }
    }

    /// Drives as `Driver` does behind a closed gate, until a timer has run.
    fn drive_by_program(mut self) {
        let fixture = self.fixture.clone();
        let waker = LoopWaker::new();
        let wakeup = &fixture.core.wakeup;
        wakeup.change_role(0, PROGRAM);
        let (program, sleeps) = (&wakeup.program, &mut Sleeps::default());
        program.bell.attach();
        program.bell.set(&waker.waker());
        while fixture.counts.run() == 0 {
            program.wake_up(sleeps, || NOW);
            wakeup.set_awake();
            self.round();
            self.rest();
            // As `next_wakeup`.
            program.bell.rearm(true);
            wakeup.set_awake();
            self.round_to(|| OPENED);
            self.rest();
            let tick = program.fall_asleep(sleeps, u64::MAX - 1, || NOW, || wakeup.wake_tick());
            if tick.is_some() && fixture.counts.run() == 0 {
                waker.park();
            }
        }
        program.bell.remove();
    }

    /// Starts a thread that acts at `NOW`.
    fn spawn<T: Send + 'static>(
        &self,
        f: impl FnOnce(&Fixture) -> T + Send + 'static,
    ) -> crate::sync::thread::JoinHandle<T> {
        let clock = self.clock.clone();
        self.fixture.spawn(move |fixture| {
            clock.store(NOW, Ordering::Relaxed);
            f(fixture)
        })
    }
}

/// A new timer takes the place of an overdue one that was cancelled, in the wheel or in the intake.
#[test]
fn in_the_place_of_an_overdue_timer() {
    for is_linked in [true, false] {
        explore(move || {
            let mut gate = ClosedGate::new();
            let mut cache = Cache::new();
            let overdue = gate.overdue(&mut cache);
            if is_linked {
                gate.link();
            }
            assert!(gate.fixture.cancel(&overdue));
            gate.fixture.release(overdue, &mut cache);
            let setter = gate.spawn(move |fixture| {
                fixture.schedule_at(&mut cache, fixture.counts.once(), NOW, NOW);
            });
            gate.drive();
            setter.join().unwrap();
        });
    }
}

/// A timer that is overdue, in the wheel or in the intake, is reset to now.
#[test]
fn a_reset_of_an_overdue_timer() {
    for is_linked in [true, false] {
        explore(move || {
            let mut gate = ClosedGate::new();
            let overdue = gate.overdue(&mut Cache::new());
            if is_linked {
                gate.link();
            }
            // Unless a round has found that it is due.
            let setter = gate.spawn(move |fixture| fixture.reset(&overdue, NOW, NOW));
            gate.drive();
            setter.join().unwrap();
        });
    }
}

/// The same, in a shard that the program's loop drives.
#[test]
fn a_reset_while_a_loop_goes_to_sleep() {
    explore(|| {
        let mut gate = ClosedGate::new();
        let overdue = gate.overdue(&mut Cache::new());
        gate.link();
        let setter = gate.spawn(move |fixture| fixture.reset(&overdue, NOW, NOW));
        gate.drive_by_program();
        setter.join().unwrap();
    });
}

/// A timer is reset to now between the mark and the push of a reset that was made when its deadline had not come.
#[test]
fn a_reset_against_the_push_of_another() {
    explore(|| {
        let mut gate = ClosedGate::new();
        let handle = gate.fixture.schedule(&mut Cache::new(), gate.fixture.counts.once(), 100).unwrap();
        gate.link();
        let index = handle.0;
        let notice = gate.fixture.entry(&handle).reset(OVERDUE, OPENED).unwrap();
        assert_eq!(notice, DriverNotice::Enqueue, "the entry is marked, but not pushed");
        let pusher = gate.fixture.spawn(move |fixture| fixture.core.notify_driver(index, notice, OVERDUE, OPENED));
        let setter = gate.spawn(move |fixture| assert!(fixture.reset(&handle, NOW, NOW)));
        gate.drive();
        pusher.join().unwrap();
        setter.join().unwrap();
    });
}
