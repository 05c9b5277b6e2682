//! W6: timers arrive at a fixed rate, even if the contender falls behind.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::scale::Scale;
use crate::case::Case;
use crate::contender::{Connection, Contender};
use crate::harness::random::Random;
use crate::harness::threads::together;
use crate::measured::{Measured, histogram};
use crate::system::cpu_time;
use crate::target::{Alarm, Lateness, PERCENTILES, wait_for_all};

const THREADS: usize = 2;
/// One timer in `FIRES`, on average, is not cancelled.
const FIRES: u64 = 10;
const SHORTEST: Duration = Duration::from_millis(1);
/// Interval at which a thread schedules and cancels.
const STEP: Duration = Duration::from_millis(1);
/// Maximum lateness; a timer that is later counts as lost.
const MAX_LATENESS: Duration = Duration::from_secs(2);

#[derive(Clone, Copy)]
struct Load {
    /// Timers a second.
    rate: u64,
    time: Duration,
    longest: Duration,
}

pub fn cases<C: Contender>(scale: Scale) -> Vec<Case> {
    let ms = Duration::from_millis;
    let (time, longest) = scale.pick((ms(10_000), ms(10_000)), (ms(300), ms(300)));
    let rates: &[_] = scale.pick(&[100_000, 500_000], &[100_000]);
    let case = |&rate: &u64| {
        Case::new(format!("{}k a second", rate / 1000), move || open_loop::<C>(Load { rate, time, longest }))
    };
    rates.iter().map(case).collect()
}

fn open_loop<C: Contender>(load: Load) -> Measured {
    let timer = Arc::new(C::start());
    let before = cpu_time();
    let (_, own) = together(&timer, (0..THREADS).collect(), move |timer, thread, _| generate(timer, thread, load));
    let alarms = own.iter().flat_map(|generated| generated.alarms.iter().cloned()).collect::<Vec<_>>();
    let mut woke = histogram();
    own.iter().for_each(|generated| woke += &generated.woke);
    if let Some(last) = alarms.iter().map(|alarm| alarm.due()).max() {
        thread::sleep(last.saturating_duration_since(Instant::now()));
        wait_for_all(&alarms, last + MAX_LATENESS);
    }
    let cpu = cpu_time() - before;
    drop(own);
    let millions = load.rate as f64 * load.time.as_secs_f64() / 1e6;
    let measured = Measured::default().with("CPU s per million", cpu.as_secs_f64() / millions);
    let woke_late = |percentile| woke.value_at_percentile(percentile) as f64 / 1e6;
    Lateness::of(&alarms).add_to(measured, &PERCENTILES).with("ms the load itself woke late, p99", woke_late(99.0))
}

/// The result of a thread.
struct Generated<H> {
    /// Handles of the timers that were not cancelled.
    _handles: Vec<H>,
    alarms: Vec<Arc<Alarm>>,
    /// Lateness of the thread itself after each sleep until its next step.
    woke: Histogram<u64>,
}

/// Schedules the thread's part of the timers, and cancels most of them.
fn generate<C: Contender>(timer: &C, thread: usize, load: Load) -> Generated<C::Handle> {
    let mut random = Random::new(thread);
    let connection = Arc::new(Connection);
    let mut due = Vec::new();
    due.resize_with(steps(load.time) + steps(load.longest / 2) + 2, Vec::new);
    let mut handles = Vec::new();
    let mut alarms = Vec::new();
    let mut woke = histogram();
    let mut left = load.rate as f64 * load.time.as_secs_f64() / THREADS as f64;
    let each = load.time.as_secs_f64() / left;
    let start = Instant::now();
    let mut next = start;
    for step in 0..due.len() {
        let begins = start + STEP * step as u32;
        let early = begins.saturating_duration_since(Instant::now());
        if !early.is_zero() {
            timer.wait(|| thread::sleep(early));
            woke += begins.elapsed().as_nanos() as u64;
        }
        for handle in due[step].drain(..) {
            timer.cancel(handle);
        }
        let now = Instant::now();
        while left >= 1.0 && next <= now {
            left -= 1.0;
            next += Duration::from_secs_f64(each);
            let delay = log_uniform(&mut random, load.longest);
            if random.next(0..FIRES) == 0 {
                let alarm = Alarm::new(Instant::now() + delay);
                handles.push(timer.schedule(delay, alarm.clone()));
                alarms.push(alarm);
            } else {
                due[step + 1 + steps(delay / 2)].push(timer.schedule(delay, connection.clone()));
            }
        }
    }
    Generated { _handles: handles, alarms, woke }
}

fn steps(time: Duration) -> usize {
    time.div_duration_f64(STEP) as usize
}

fn log_uniform(random: &mut Random, longest: Duration) -> Duration {
    const PARTS: u64 = 1 << 32;
    let part = random.next(0..PARTS) as f64 / PARTS as f64;
    SHORTEST.mul_f64(longest.div_duration_f64(SHORTEST).powf(part))
}
