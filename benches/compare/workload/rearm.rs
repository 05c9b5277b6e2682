//! W4: idle timeouts, reset on every byte. A thousand timers fit into the processor's caches, a hundred thousand do
//! not.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::scale::{Scale, count};
use crate::case::Case;
use crate::contender::{Connection, Contender};
use crate::extra::noop::Noop;
use crate::harness::random::Random;
use crate::harness::threads::{LapTimer, cores, together};
use crate::measured::{Measured, nanos};
use crate::target::settle;

const IDLE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy)]
struct Load {
    threads: usize,
    /// Number of timers of all threads together.
    timers: usize,
    /// Number of resets by all threads together.
    times: usize,
}

pub fn cases<C: Contender>(scale: Scale) -> Vec<Case> {
    each(scale, rearm::<C>)
}

/// The control: reads the clock and makes a compare-exchange on unshared memory.
pub fn control(scale: Scale) -> Vec<Case> {
    each(scale, unshared)
}

fn each(scale: Scale, run: fn(Load) -> Measured) -> Vec<Case> {
    let (all, times) = scale.pick(([1_000, 100_000], 4_000_000), ([1_000, 10_000], 100_000));
    let case = |timers: usize, (threads, on)| {
        let name = format!("{} timers, {on}", count(timers));
        Case::new(name, move || run(Load { threads, timers, times }))
    };
    all.iter().flat_map(|&timers| [(1, "1 thread"), (2, "2 threads")].map(|on| case(timers, on))).collect()
}

fn rearm<C: Contender>(load: Load) -> Measured {
    let timer = Arc::new(C::start());
    let (wall, _) = together(&timer, (0..load.threads).collect(), move |timer, thread, laps| {
        let connection = Arc::new(Connection);
        let schedule = |_| timer.schedule(IDLE, connection.clone());
        let mut own: Vec<_> = (0..load.timers / load.threads).map(schedule).collect();
        settle(timer);
        at_random(load, thread, laps, |any| {
            let was_pending = timer.rearm(&mut own[any], IDLE, &connection);
            assert_ne!(was_pending, Some(false), "{}: the timer was pending", C::NAME);
        });
    });
    figures(load, wall)
}

fn unshared(load: Load) -> Measured {
    #[repr(align(64))]
    struct Line(AtomicU64);

    let (wall, _) = together(&Arc::new(Noop), (0..load.threads).collect(), move |_, thread, laps| {
        let epoch = Instant::now();
        let own: Vec<_> = (0..load.timers / load.threads).map(|_| Line(AtomicU64::new(0))).collect();
        at_random(load, thread, laps, |any| {
            let deadline = epoch.elapsed().as_nanos() as u64 + IDLE.as_nanos() as u64;
            let old = own[any].0.load(Ordering::Acquire);
            assert!(own[any].0.compare_exchange(old, deadline, Ordering::AcqRel, Ordering::Relaxed).is_ok());
        });
    });
    figures(load, wall)
}

/// Calls `f` repeatedly, each time with the index of a random timer of the thread.
fn at_random(load: Load, thread: usize, laps: &mut LapTimer, mut f: impl FnMut(usize)) {
    let mut random = Random::new(thread);
    laps.time(|| {
        for _ in 0..load.times / load.threads {
            f(random.next(0..(load.timers / load.threads) as u64) as usize);
        }
    });
}

fn figures(load: Load, wall: Duration) -> Measured {
    Measured::default().with("ns a re-arm", nanos(wall) * cores().min(load.threads) as f64 / load.times as f64)
}
