//! Explores the waker of a program's loop.
//!
//! The loop asks for an answer: it rearms the waker, and then looks for pushes. Callers push, and then wake the
//! program.
//!
//! Invariant: no push is missed by a loop that sleeps until its waker is called. After each answer, callers call the
//! waker at most once. Each waker is dropped once, and its memory is used by one thread at a time.
//!
//! Promise: no timer is forgotten.

use super::explore;
use crate::engine::alarm::{AWAKE, Alarms, Sleeps};
use crate::engine::seat::PROGRAM;
use crate::engine::wakeup::DriverWakeup;
use crate::fixture::{LoopWaker, levels};
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{Arc, AtomicU64, Ordering};

/// A shard that the program's loop drives.
#[derive(Clone)]
struct Program(Arc<(DriverWakeup, AtomicU64)>);

impl Program {
    fn new() -> Self {
        let wakeup = DriverWakeup::new(Arc::new(Alarms::new(1)), PROGRAM, levels());
        wakeup.program.bell.attach();
        Self(Arc::new((wakeup, AtomicU64::new(0))))
    }

    fn wakeup(&self) -> &DriverWakeup {
        &self.0.0
    }

    fn push(&self) {
        self.0.1.fetch_add(1, Ordering::Relaxed);
        self.wakeup().wake_driver(AWAKE);
    }

    fn pushed(&self) -> u64 {
        self.0.1.load(Ordering::Relaxed)
    }

    /// Lets the loop sleep until the tick that `earliest` returns, or until `floor`. Returns whether it may.
    fn sleeps(&self, floor: u64, earliest: impl Fn() -> u64) -> bool {
        self.wakeup().program.fall_asleep(&mut Sleeps::default(), floor, || 0, earliest).is_some()
    }

    /// The loop is awake, and looks again before it sleeps.
    fn ask(&self, has_driven: bool) {
        self.wakeup().program.wake_up(&mut Sleeps::default(), || 0);
        self.wakeup().program.bell.rearm(has_driven);
    }

    /// Returns how many pushes the answer takes into account.
    fn answer(&self) -> u64 {
        self.ask(false);
        loop {
            let pushed = self.pushed();
            if self.sleeps(0, || if self.pushed() == pushed { u64::MAX } else { AWAKE }) {
                return pushed;
            }
        }
    }

    /// Frees memory.
    fn free(&self) {
        self.0.1.fetch_add(1, Ordering::Relaxed);
        self.wakeup().wake_lazily(0);
    }

    /// Returns how much memory it has given back.
    fn drive(&self) -> u64 {
        self.wakeup().program.wake_up(&mut Sleeps::default(), || 0);
        self.wakeup().set_awake();
        self.pushed()
    }

    /// Returns whether the loop sleeps, because no more memory was freed.
    fn falls_asleep(&self, freed: u64) -> bool {
        self.ask(true);
        self.wakeup().fall_asleep(0, u64::MAX, || self.pushed() == freed)
            && self.sleeps(0, || self.wakeup().wake_tick())
    }

    fn spawn(&self, f: impl FnOnce(&Self) + Send + 'static) -> JoinHandle<()> {
        let this = self.clone();
        thread::spawn(move || f(&this))
    }
}

#[test]
fn a_push_after_an_answer_calls_the_waker_once() {
    explore(|| {
        let program = Program::new();
        let waker = LoopWaker::new();
        program.wakeup().program.bell.set(&waker.waker());
        program.answer();
        program.wakeup().wake_driver(AWAKE);
        assert_eq!(waker.calls(), 0, "the loop's own thread wakes nobody");
        let callers = [(); 2].map(|()| program.spawn(Program::push));
        let mut answers = 1;
        while program.answer() < 2 {
            waker.park();
            answers += 1;
        }
        callers.into_iter().for_each(|caller| caller.join().unwrap());
        // `set` arms the waker, and each answer does it again.
        assert!(waker.calls() <= 1 + answers, "{} calls after {answers} answers", waker.calls());
        drop(program);
        assert_eq!(waker.wakers(), 0);
    });
}

#[test]
fn memory_wakes_a_loop_that_sleeps_once_until_it_drives() {
    explore(|| {
        let program = Program::new();
        let waker = LoopWaker::new();
        program.wakeup().program.bell.set(&waker.waker());
        program.wakeup().program.bell.rearm(false);
        program.spawn(Program::free).join().unwrap();
        assert_eq!(waker.calls(), 0, "a driver that is awake looks by itself");
        let callers = [2, 1].map(|frees| program.spawn(move |program| (0..frees).for_each(|_| program.free())));
        let (mut freed, mut drives) = (1, 0);
        while freed < 4 {
            if program.falls_asleep(freed) {
                waker.park();
            }
            freed = program.drive();
            drives += 1;
            assert!(waker.calls() <= 1 + drives, "{} calls after {drives} drives", waker.calls());
        }
        callers.into_iter().for_each(|caller| caller.join().unwrap());
        drop(program);
        assert_eq!(waker.wakers(), 0);
    });
}

/// A push and freed memory each wake the loop.
#[test]
fn a_waker_that_is_set_late_is_called_once() {
    explore(|| {
        let program = Program::new();
        let waker = LoopWaker::new();
        assert!(program.falls_asleep(0));
        let callers = [Program::push, Program::free].map(|wake| program.spawn(wake));
        program.wakeup().program.bell.set(&waker.waker());
        waker.park();
        callers.into_iter().for_each(|caller| caller.join().unwrap());
        assert_eq!(waker.calls(), 1);
        drop(program);
        assert_eq!(waker.wakers(), 0);
    });
}

#[test]
fn a_new_waker_replaces_the_old_one() {
    explore(|| {
        let program = Program::new();
        let [old, new] = [(); 2].map(|()| LoopWaker::new());
        program.wakeup().program.bell.set(&old.waker());
        program.answer();
        let caller = program.spawn(Program::push);
        program.wakeup().program.bell.set(&new.waker());
        assert!(old.calls() <= 1);
        new.park();
        caller.join().unwrap();
        assert_eq!((old.wakers(), new.calls()), (0, 1));
        drop(program);
        assert_eq!(new.wakers(), 0);
    });
}

#[test]
fn a_removed_waker_is_dropped() {
    explore(|| {
        let program = Program::new();
        let waker = LoopWaker::new();
        program.wakeup().program.bell.set(&waker.waker());
        program.answer();
        let callers = [(); 2].map(|()| program.spawn(Program::push));
        program.wakeup().program.bell.remove();
        callers.into_iter().for_each(|caller| caller.join().unwrap());
        assert!(waker.calls() <= 1);
        assert_eq!(waker.wakers(), 0);
    });
}

#[test]
fn a_close_calls_a_waker_that_was_called() {
    explore(|| {
        let program = Program::new();
        let waker = LoopWaker::new();
        program.wakeup().program.bell.set(&waker.waker());
        program.answer();
        program.spawn(Program::push).join().unwrap();
        waker.park();
        let caller = program.spawn(Program::push);
        let closer = program.spawn(|program| program.wakeup().wake_for_close());
        waker.park();
        caller.join().unwrap();
        closer.join().unwrap();
        assert_eq!(waker.calls(), 2);
        drop(program);
        assert_eq!(waker.wakers(), 0);
    });
}

#[test]
fn a_close_calls_a_waker_that_is_set_late() {
    explore(|| {
        let program = Program::new();
        let waker = LoopWaker::new();
        let closers = [(); 2].map(|()| program.spawn(|program| program.wakeup().wake_for_close()));
        program.wakeup().program.bell.set(&waker.waker());
        waker.park();
        closers.into_iter().for_each(|closer| closer.join().unwrap());
        drop(program);
        assert_eq!(waker.wakers(), 0);
    });
}

#[test]
fn a_loop_that_moves_misses_no_memory() {
    explore(|| {
        let program = Program::new();
        let taker = program.spawn(|program| {
            let waker = LoopWaker::new();
            program.wakeup().program.bell.attach();
            program.wakeup().program.bell.set(&waker.waker());
            let mut freed = 0;
            while freed < 1 {
                if program.falls_asleep(freed) {
                    waker.park();
                }
                freed = program.drive();
            }
        });
        program.free();
        taker.join().unwrap();
    });
}

/// The answer of the loop is a floor, which comes by itself.
#[test]
fn a_deadline_before_the_floor_calls_no_waker() {
    for (until, calls) in [(4, 0), (50, 1)] {
        explore(move || {
            let (program, waker) = (Program::new(), LoopWaker::new());
            program.wakeup().program.bell.set(&waker.waker());
            program.wakeup().program.bell.rearm(false);
            program.wakeup().fall_asleep(0, until, || true);
            assert!(program.sleeps(5, || program.wakeup().wake_tick()));
            let callers = [2, 3].map(|tick| program.spawn(move |program| program.wakeup().wake_by(tick)));
            callers.into_iter().for_each(|caller| caller.join().unwrap());
            assert_eq!(waker.calls(), calls);
        });
    }
}

#[test]
fn what_is_due_at_once_calls_the_waker_before_the_floor() {
    explore(|| {
        let (program, waker) = (Program::new(), LoopWaker::new());
        program.wakeup().program.bell.set(&waker.waker());
        program.wakeup().program.bell.rearm(false);
        program.wakeup().fall_asleep(0, 4, || true);
        assert!(program.sleeps(5, || program.wakeup().wake_tick()));
        let callers = [AWAKE, 2].map(|tick| program.spawn(move |program| program.wakeup().wake_by(tick)));
        callers.into_iter().for_each(|caller| caller.join().unwrap());
        assert_eq!(waker.calls(), 1);
    });
}
