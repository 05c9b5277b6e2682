//! W2: many timers at once, all cancelled again.

use std::iter;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::scale::{STANDING, Scale, count, fits};
use crate::case::Case;
use crate::contender::{Connection, Contender};
use crate::harness::random::Random;
use crate::harness::threads::{alone, cores, together};
use crate::measured::{Measured, nanos};
use crate::memory::Growth;
use crate::target::settle;

const THREADS: usize = 2;
/// Maximum difference of a delay from the mean, in either direction.
const SPREAD: Duration = Duration::from_secs(60);

pub fn cases<C: Contender>(scale: Scale) -> Vec<Case> {
    let timers: &[_] = scale.pick(&[1_000_000, 10_000_000], &[100_000]);
    let rest = scale.pick(Duration::from_secs(2), Duration::from_millis(300));
    let case = |&timers| Case::new(format!("{} timers", count(timers)), move || burst::<C>(timers, rest));
    timers.iter().filter(|timers| fits(**timers)).map(case).collect()
}

/// The timers of a thread, and the order in which it cancels them. Both are allocated before the measurement.
struct ThreadTimers<H> {
    handles: Vec<Option<H>>,
    order: Vec<u32>,
}

impl<H> ThreadTimers<H> {
    fn new(thread: usize, timers: usize) -> Self {
        let mut random = Random::new(thread);
        let mut order: Vec<_> = (0..timers as u32).collect();
        for last in (1..timers).rev() {
            order.swap(last, random.next(0..last as u64 + 1) as usize);
        }
        Self { handles: iter::repeat_with(|| None).take(timers).collect(), order }
    }
}

fn burst<C: Contender>(timers: usize, rest: Duration) -> Measured {
    let timer = Arc::new(C::start());
    let own: Vec<_> = (0..THREADS).map(|thread| (thread, ThreadTimers::new(thread, timers / THREADS))).collect();
    alone(&timer, settle);
    let growth = Growth::start();

    let (scheduling, own) = together(&timer, own, move |timer, (thread, mut own), laps| {
        let mut random = Random::new(thread);
        let connection = Arc::new(Connection);
        let delays = (STANDING - SPREAD).as_nanos() as u64..(STANDING + SPREAD).as_nanos() as u64;
        laps.time(|| {
            for handle in &mut own.handles {
                let delay = Duration::from_nanos(random.next(delays.clone()));
                *handle = Some(timer.schedule(delay, connection.clone()));
            }
        });
        own
    });
    alone(&timer, settle);
    let pending = growth.bytes();
    let (cancelling, own) = together(&timer, own, |timer, mut own: ThreadTimers<C::Handle>, laps| {
        laps.time(|| {
            for &index in &own.order {
                let handle = own.handles[index as usize].take().expect("each index occurs once");
                assert_ne!(timer.cancel(handle), Some(false), "{}: the timer was pending", C::NAME);
            }
        });
        own
    });
    thread::sleep(rest);
    let kept = growth.bytes();
    let curve = growth.end();
    drop(own);

    let each = |wall: Duration| nanos(wall) * cores().min(THREADS) as f64 / timers as f64;
    let measured = Measured::default()
        .with("ns a schedule", each(scheduling))
        .with("ns a cancel", each(cancelling))
        .with("bytes a timer", pending / timers as f64)
        .with("% kept", 100.0 * kept / pending);
    Measured { curve, ..measured }
}
