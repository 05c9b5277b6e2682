//! A contender with standing timers, and what is measured of it.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use super::firing;
use crate::contender::{Connection, Contender};
use crate::harness::random::Random;
use crate::harness::threads::{LapTimer, alone, cores, together};

/// Delay of the standing timers, which never fire.
const STANDING: Duration = Duration::from_secs(30 * 60);
/// Number of timers that a thread schedules, or cancels, at a time.
const CHUNK: usize = 1024;
/// Number of live timers of a thread in [`Operation::Pair`].
const RING: usize = 256;

/// An operation whose cost is measured while other timers stand.
#[derive(Clone, Copy)]
pub enum Operation {
    Schedule,
    Cancel,
    /// Schedules a timer and cancels the oldest of the thread's own.
    Pair,
    /// Resets a random standing timer of the thread to its full delay, like an idle timeout.
    Rearm,
}

/// A contender with its standing timers.
pub trait Rig {
    /// Lets each thread make `times` operations. Returns wall time x min(threads, cores) / threads. The wall time is
    /// that from the start of the first thread to the end of the last.
    fn time(&mut self, operation: Operation, threads: usize, times: u64) -> Duration;

    /// Schedules timers with the same deadline from several threads. Returns the time from the deadline until all have
    /// run.
    fn fire(&mut self, timers: usize, threads: usize) -> Duration;
}

/// Starts a contender with a number of standing timers.
pub fn rig<C: Contender>(standing: usize) -> Box<dyn Rig> {
    let timer = Arc::new(C::start());
    let standing = alone(&timer, move |timer| {
        let connection = Arc::new(Connection);
        (0..standing).map(|_| timer.schedule(STANDING, connection.clone())).collect::<Vec<_>>()
    });
    Box::new(Loaded { timer, standing })
}

struct Loaded<C: Contender> {
    timer: Arc<C>,
    standing: Vec<C::Handle>,
}

impl<C: Contender> Rig for Loaded<C> {
    fn time(&mut self, operation: Operation, threads: usize, times: u64) -> Duration {
        let each: Vec<_> = (0..threads).collect();
        let wall = match operation {
            Operation::Schedule | Operation::Cancel => {
                let schedules = matches!(operation, Operation::Schedule);
                let work =
                    move |timer: &C, thread, laps: &mut LapTimer| in_chunks(timer, thread, laps, times, schedules);
                together(&self.timer, each, work).0
            }
            Operation::Pair => {
                together(&self.timer, each, move |timer, thread, laps| pairs(timer, thread, laps, times)).0
            }
            Operation::Rearm => {
                let size = self.standing.len() / threads;
                let mut rest = mem::take(&mut self.standing);
                let own = each.into_iter().map(|thread| (thread, rest.split_off(rest.len() - size))).collect();
                let (wall, standing) =
                    together(&self.timer, own, move |timer, own, laps| rearm(timer, own, laps, times));
                self.standing = standing.into_iter().flatten().chain(rest).collect();
                wall
            }
        };
        wall * cores().min(threads) as u32 / threads as u32
    }

    fn fire(&mut self, timers: usize, threads: usize) -> Duration {
        firing::fire(&self.timer, timers, threads)
    }
}

/// Returns a typical timeout of a server: 5 to 30 s.
fn timeout(random: &mut Random) -> Duration {
    Duration::from_nanos(random.next(5_000_000_000..30_000_000_000))
}

fn cancel<C: Contender>(timer: &C, handle: C::Handle) {
    assert_ne!(timer.cancel(handle), Some(false), "{}: the timer was pending", C::NAME);
}

/// Schedules and cancels timers in chunks, and times one of the two. Chunks keep the number of pending timers close to
/// that of the standing ones.
fn in_chunks<C: Contender>(timer: &C, thread: usize, laps: &mut LapTimer, times: u64, schedules: bool) {
    let mut random = Random::new(thread);
    let connection = Arc::new(Connection);
    let mut handles = Vec::with_capacity(CHUNK);
    let mut left = times as usize;
    while left > 0 {
        let chunk = left.min(CHUNK);
        left -= chunk;
        let mut schedule =
            || handles.extend((0..chunk).map(|_| timer.schedule(timeout(&mut random), connection.clone())));
        if schedules {
            laps.time(schedule);
            laps.wait();
            handles.drain(..).for_each(|handle| cancel(timer, handle));
        } else {
            schedule();
            laps.time(|| handles.drain(..).for_each(|handle| cancel(timer, handle)));
            laps.wait();
        }
    }
}

fn pairs<C: Contender>(timer: &C, thread: usize, laps: &mut LapTimer, times: u64) {
    let mut random = Random::new(thread);
    let connection = Arc::new(Connection);
    let mut schedule = || timer.schedule(timeout(&mut random), connection.clone());
    let mut ring: Vec<_> = (0..RING).map(|_| schedule()).collect();
    laps.time(|| {
        for turn in 0..times as usize {
            let new = schedule();
            cancel(timer, mem::replace(&mut ring[turn % RING], new));
        }
    });
    ring.into_iter().for_each(|handle| cancel(timer, handle));
}

/// Resets random ones of the thread's standing timers, and returns all of them.
fn rearm<C: Contender>(
    timer: &C,
    (thread, mut own): (usize, Vec<C::Handle>),
    laps: &mut LapTimer,
    times: u64,
) -> Vec<C::Handle> {
    let mut random = Random::new(thread);
    let connection = Arc::new(Connection);
    laps.time(|| {
        for _ in 0..times {
            let any = random.next(0..own.len() as u64) as usize;
            let handle = &mut own[any];
            assert_ne!(timer.rearm(handle, STANDING, &connection), Some(false), "{}: the timer was pending", C::NAME);
        }
    });
    own
}
