//! W10: timers at a low rate that all fire, at random times.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::scale::Scale;
use crate::case::Case;
use crate::contender::Contender;
use crate::harness::random::Random;
use crate::harness::threads::together;
use crate::measured::Measured;
use crate::system::{context_switches, cpu_time};
use crate::target::{Alarm, Lateness, PERCENTILES, wait_for_all};

/// Interval at which the thread arms timers.
const STEP: Duration = Duration::from_millis(5);
const SHORTEST: Duration = Duration::from_millis(2);
const LONGEST: Duration = Duration::from_millis(60);
/// Maximum lateness; a timer that is later counts as lost.
const MAX_LATENESS: Duration = Duration::from_secs(2);

pub fn cases<C: Contender>(scale: Scale) -> Vec<Case> {
    let steps = scale.pick(800, 40);
    let rates: &[_] = scale.pick(&[500, 2_000, 10_000, 100_000], &[2_000]);
    let case = |&rate: &usize| Case::new(format!("{rate} timers a second"), move || punctual::<C>(rate, steps));
    rates.iter().map(case).collect()
}

fn punctual<C: Contender>(rate: usize, steps: u32) -> Measured {
    let timer = Arc::new(C::start());
    let before = cpu_time();
    let switches = context_switches();
    let begun = Instant::now();
    let (_, own) = together(&timer, vec![()], move |timer, (), _| arm(timer, rate, steps));
    let (handles, alarms): (Vec<_>, Vec<_>) = own.into_iter().unzip();
    let alarms = alarms.concat();
    thread::sleep(LONGEST);
    let cpu = cpu_time() - before;
    let switches = (context_switches() - switches) as f64 / begun.elapsed().as_secs_f64();
    wait_for_all(&alarms, Instant::now() + MAX_LATENESS);
    drop(handles);
    let measured = Measured::default()
        .with("CPU µs a timer", cpu.as_secs_f64() * 1e6 / alarms.len() as f64)
        .with("context switches a second", switches);
    Lateness::of(&alarms).add_to(measured, &PERCENTILES)
}

/// Arms all timers.
fn arm<C: Contender>(timer: &C, rate: usize, steps: u32) -> (Vec<C::Handle>, Vec<Arc<Alarm>>) {
    let mut random = Random::new(0);
    let mut handles = Vec::new();
    let mut alarms = Vec::new();
    let start = Instant::now();
    for step in 1..=steps {
        let armed = (STEP * step).as_secs_f64() * rate as f64;
        while alarms.len() < armed as usize {
            let delay = Duration::from_nanos(random.next(SHORTEST.as_nanos() as u64..LONGEST.as_nanos() as u64));
            let alarm = Alarm::new(Instant::now() + delay);
            handles.push(timer.schedule(delay, alarm.clone()));
            alarms.push(alarm);
        }
        let next = start + STEP * step;
        timer.wait(|| thread::sleep(next.saturating_duration_since(Instant::now())));
    }
    (handles, alarms)
}
