//! What is measured, on any [`Contender`].

mod firing;
mod laps;
mod random;

use std::sync::Arc;
use std::time::Duration;

use crate::contender::Contender;
use laps::{Laps, together};
use random::Random;

/// How far away the standing timers are: nobody waits for them.
const STANDING: Duration = Duration::from_secs(30 * 60);
/// How many timers a thread schedules, or cancels, in one go.
const CHUNK: usize = 1024;
/// How many live timers a thread has in [`Operation::Pair`].
const RING: usize = 256;

/// An operation whose cost is measured, beside timers that just stand.
#[derive(Clone, Copy)]
pub enum Operation {
    Schedule,
    Cancel,
    /// Schedules a timer and cancels the oldest of the thread's own.
    Pair,
    /// Moves a standing timer, picked at random from the thread's own part, to where it would stand if it were new:
    /// what an idle timeout does.
    Rearm,
}

/// A contender with its standing timers.
pub trait Rig {
    /// What so many operations cost a core: each of the threads does them, and the wall time, from the start of the
    /// first thread to the end of the last, is taken x min(threads, cores) / threads.
    fn time(&mut self, operation: Operation, threads: usize, times: u64) -> Duration;

    /// Lets so many timers, scheduled from so many threads, fall due at one moment: from then until all have run.
    fn fire(&mut self, timers: usize, threads: usize) -> Duration;
}

/// Starts a contender with so many standing timers.
pub fn rig<C: Contender>(standing: usize) -> Box<dyn Rig> {
    let timer = C::start();
    let standing = (0..standing).map(|_| schedule(&timer, STANDING, &Arc::default())).collect();
    Box::new(Loaded { timer, standing })
}

struct Loaded<C: Contender> {
    timer: C,
    standing: Vec<C::Handle>,
}

impl<C: Contender> Rig for Loaded<C> {
    fn time(&mut self, operation: Operation, threads: usize, times: u64) -> Duration {
        let timer = &self.timer;
        let wall = match operation {
            Operation::Schedule | Operation::Cancel => {
                let schedules = matches!(operation, Operation::Schedule);
                together(0..threads, |thread, laps| in_chunks(timer, thread, laps, times, schedules))
            }
            Operation::Pair => together(0..threads, |thread, laps| pairs(timer, thread, laps, times)),
            Operation::Rearm => {
                let each = self.standing.len() / threads;
                let own = self.standing.chunks_exact_mut(each).enumerate();
                together(own, |(thread, own), laps| rearm(timer, thread, own, laps, times))
            }
        };
        wall * laps::cores().min(threads) as u32 / threads as u32
    }

    fn fire(&mut self, timers: usize, threads: usize) -> Duration {
        firing::fire(&self.timer, timers, threads)
    }
}

/// A timeout of a server: 5 to 30 s.
fn timeout(random: &mut Random) -> Duration {
    Duration::from_nanos(random.next(5_000_000_000..30_000_000_000))
}

/// Schedules a timer that holds on to something, as every timeout does.
fn schedule<C: Contender>(timer: &C, delay: Duration, connection: &Arc<()>) -> C::Handle {
    let connection = connection.clone();
    timer.schedule(delay, move || drop(connection))
}

fn cancel<C: Contender>(timer: &C, handle: C::Handle) {
    assert!(timer.cancel(handle), "{}: the timer was pending", C::NAME);
}

/// Schedules timers and cancels them, in chunks, so that not many more than the standing ones are pending; one of the
/// two is timed.
fn in_chunks<C: Contender>(timer: &C, thread: usize, laps: &mut Laps, times: u64, schedules: bool) {
    let (mut random, connection) = (Random::new(thread), Arc::default());
    let mut handles = Vec::with_capacity(CHUNK);
    let mut left = times as usize;
    while left > 0 {
        let chunk = left.min(CHUNK);
        left -= chunk;
        laps.time_if(schedules, || {
            handles.extend((0..chunk).map(|_| schedule(timer, timeout(&mut random), &connection)));
        });
        laps.time_if(!schedules, || handles.drain(..).for_each(|handle| cancel(timer, handle)));
    }
}

fn pairs<C: Contender>(timer: &C, thread: usize, laps: &mut Laps, times: u64) {
    let (mut random, connection) = (Random::new(thread), Arc::default());
    let mut ring: Vec<_> = (0..RING).map(|_| schedule(timer, timeout(&mut random), &connection)).collect();
    laps.time(|| {
        for turn in 0..times as usize {
            let new = schedule(timer, timeout(&mut random), &connection);
            cancel(timer, std::mem::replace(&mut ring[turn % RING], new));
        }
    });
    ring.into_iter().for_each(|handle| cancel(timer, handle));
}

fn rearm<C: Contender>(timer: &C, thread: usize, own: &mut [C::Handle], laps: &mut Laps, times: u64) {
    let mut random = Random::new(thread);
    laps.time(|| {
        for _ in 0..times {
            let handle = &mut own[random.next(0..own.len() as u64) as usize];
            assert!(timer.rearm(handle, STANDING), "{}: the timer was pending", C::NAME);
        }
    });
}
