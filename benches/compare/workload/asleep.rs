//! W9: threads that sleep most of the time arm timers in bursts.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::scale::Scale;
use crate::case::Case;
use crate::contender::Contender;
use crate::harness::random::Random;
use crate::harness::threads::together;
use crate::measured::Measured;
use crate::system::cpu_time;
use crate::target::{Alarm, Lateness, wait_for_all};

const THREADS: usize = 64;
/// Interval between the bursts, which all threads begin together.
const PAUSE: Duration = Duration::from_millis(250);
const SHORTEST: Duration = Duration::from_millis(200);
/// Time after the last deadline that counts as processor time.
const REST: Duration = Duration::from_millis(100);
/// Maximum lateness; a timer that is later counts as lost.
const MAX_LATENESS: Duration = Duration::from_secs(2);

#[derive(Clone, Copy)]
struct Load {
    /// Timers of a thread.
    timers: usize,
    bursts: usize,
    longest: Duration,
}

pub fn cases<C: Contender>(scale: Scale) -> Vec<Case> {
    let (bursts, longest) = scale.pick((24, Duration::from_secs(2)), (2, Duration::from_millis(300)));
    let rates: &[_] = scale.pick(&[1_000, 10_000, 100_000], &[1_000]);
    let case = |&rate: &usize| {
        let timers = PAUSE.as_millis() as usize * bursts * rate / 1000 / THREADS;
        Case::new(format!("{}k firings a second", rate / 1000), move || asleep::<C>(Load { timers, bursts, longest }))
    };
    rates.iter().map(case).collect()
}

fn asleep<C: Contender>(load: Load) -> Measured {
    let timer = Arc::new(C::start());
    let before = cpu_time();
    let start = Instant::now();
    let (_, own) = together(&timer, (0..THREADS).collect(), move |timer, thread, _| arm(timer, thread, start, load));
    let (handles, alarms): (Vec<_>, Vec<_>) = own.into_iter().unzip();
    let alarms = alarms.concat();
    let last = alarms.iter().map(|alarm| alarm.due()).max().expect("there are timers");
    thread::sleep((last + REST).saturating_duration_since(Instant::now()));
    let cpu = cpu_time() - before;
    wait_for_all(&alarms, last + MAX_LATENESS);
    drop(handles);
    let measured = Measured::default().with("CPU µs a firing", cpu.as_secs_f64() * 1e6 / alarms.len() as f64);
    Lateness::of(&alarms).add_to(measured, &[50.0, 99.0])
}

/// Arms the timers of one thread, which sleeps between the bursts.
fn arm<C: Contender>(timer: &C, thread: usize, start: Instant, load: Load) -> (Vec<C::Handle>, Vec<Arc<Alarm>>) {
    let mut random = Random::new(thread);
    let mut handles = Vec::new();
    let mut alarms = Vec::new();
    for burst in 1..=load.bursts {
        for _ in alarms.len()..load.timers * burst / load.bursts {
            let delay = Duration::from_nanos(random.next(SHORTEST.as_nanos() as u64..load.longest.as_nanos() as u64));
            let alarm = Alarm::new(Instant::now() + delay);
            handles.push(timer.schedule(delay, alarm.clone()));
            alarms.push(alarm);
        }
        let next = start + PAUSE * burst as u32;
        timer.wait(|| thread::sleep(next.saturating_duration_since(Instant::now())));
    }
    (handles, alarms)
}
