//! W5: no timer expires.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::scale::{STANDING, Scale, count};
use super::slow::{self, fire};
use crate::case::Case;
use crate::contender::{Connection, Contender};
use crate::harness::threads::together;
use crate::measured::Measured;
use crate::system::{context_switches, cpu_time, threads};

const THREADS: usize = 2;

#[derive(Clone, Copy)]
struct Load {
    /// Number of timers that are scheduled before and stand.
    standing: usize,
    /// Number of timers that are scheduled and cancelled before.
    cancelled: usize,
    /// Timers that fire before.
    fired: Option<slow::Load>,
    /// Time that the contender has to finish this work.
    settle_time: Duration,
    /// Time of the measurement.
    time: Duration,
}

pub fn cases<C: Contender>(scale: Scale) -> Vec<Case> {
    let ms = Duration::from_millis;
    let (cancelled, settle_time, time) = scale.pick((1_000_000, ms(2000), ms(5000)), (10_000, ms(200), ms(200)));
    let nothing = Load { standing: 0, cancelled: 0, fired: None, settle_time, time };
    // Pools that shrink end a superfluous thread after it has been idle for ten seconds.
    let (blocked, shrinking) = scale.pick((ms(200), ms(12_000)), (ms(50), settle_time));
    let blocking = slow::Load { timers: 100, slow: 4, block: thread::sleep, time: blocked };
    vec![
        Case::new("no timer", move || idle::<C>(nothing)),
        Case::new("one timer, an hour away", move || idle::<C>(Load { standing: 1, ..nothing })),
        Case::new(format!("after a burst of {} timers", count(cancelled)), move || {
            idle::<C>(Load { cancelled, ..nothing })
        }),
        Case::new("after growth of the pool", move || {
            idle::<C>(Load { fired: Some(blocking), settle_time: shrinking, ..nothing })
        })
        .blocking(),
    ]
}

fn idle<C: Contender>(load: Load) -> Measured {
    const HOUR: Duration = Duration::from_secs(3600);
    let timer = Arc::new(C::start());
    let started = threads();
    if let Some(load) = load.fired {
        fire(&timer, load);
    }
    let (_, standing) = together(&timer, (0..THREADS).collect(), move |timer, thread, _| {
        let connection = Arc::new(Connection);
        let burst: Vec<_> =
            (0..load.cancelled / THREADS).map(|_| timer.schedule(STANDING, connection.clone())).collect();
        for handle in burst {
            timer.cancel(handle);
        }
        let standing = if thread == 0 { load.standing } else { 0 };
        (0..standing).map(|_| timer.schedule(HOUR, connection.clone())).collect::<Vec<_>>()
    });
    thread::sleep(load.settle_time);
    let before = (context_switches(), cpu_time());
    thread::sleep(load.time);
    let after = (context_switches(), cpu_time());
    drop(standing);
    let measured = Measured::default()
        .with("context switches", (after.0 - before.0) as f64)
        .with("CPU ms", (after.1 - before.1).as_secs_f64() * 1e3);
    // A thread that wakes and then ends adds no context switch, so this case also has the number of threads.
    if load.fired.is_none() { measured } else { measured.with("threads more", threads() as f64 - started as f64) }
}
