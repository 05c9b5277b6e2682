//! W3: many timers expire.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::scale::{Scale, count};
use crate::case::Case;
use crate::contender::Contender;
use crate::harness::random::Random;
use crate::harness::threads::{alone, together};
use crate::measured::{Measured, nanos};
use crate::system::cpu_time;
use crate::target::{Alarm, Lateness, PERCENTILES, settle, wait_for_all};

const THREADS: usize = 2;
/// Assumed maximum time to schedule a timer. If scheduling takes longer, the workload runs again with more time.
const EACH: Duration = Duration::from_micros(2);
/// Maximum lateness; a timer that is later counts as lost.
const MAX_LATENESS: Duration = Duration::from_secs(60);

pub fn cases<C: Contender>(scale: Scale) -> Vec<Case> {
    let timers = scale.pick(1_000_000, 100_000);
    let spread = scale.pick(Duration::from_secs(1), Duration::from_millis(200));
    let many = count(timers);
    vec![
        Case::new(format!("{many} timers over {spread:?}"), move || {
            let (alarms, _, cpu) = storm::<C>(timers, spread);
            let measured = Lateness::of(&alarms).add_to(Measured::default(), &PERCENTILES);
            measured.with("CPU ns a firing", nanos(cpu) / timers as f64)
        }),
        Case::new(format!("{many} timers in one tick"), move || {
            let (alarms, due, cpu) = storm::<C>(timers, Duration::ZERO);
            let last = alarms.iter().filter_map(|alarm| alarm.late()).max().unwrap_or(0);
            let measured = Measured::default().with("ns a firing", last as f64 / timers as f64);
            let measured = measured.with("million firings a second", timers as f64 * 1e3 / last as f64);
            assert!(alarms.iter().all(|alarm| alarm.due() == due));
            Lateness::of(&alarms).add_to(measured, &PERCENTILES).with("CPU ns a firing", nanos(cpu) / timers as f64)
        }),
    ]
}

/// Returns the alarms, the earliest possible deadline, and the processor time from then on.
fn storm<C: Contender>(timers: usize, spread: Duration) -> (Vec<Arc<Alarm>>, Instant, Duration) {
    let mut lead = Duration::from_millis(200) + EACH * timers as u32;
    loop {
        let timer = Arc::new(C::start());
        let first = Instant::now() + lead;
        let (_, own) = together(&timer, (0..THREADS).collect(), move |timer, thread, _| {
            let mut random = Random::new(thread);
            let schedule = |_| {
                let alarm = Alarm::new(first + Duration::from_nanos(random.next(0..spread.as_nanos() as u64 + 1)));
                let delay = alarm.due().saturating_duration_since(Instant::now());
                (timer.schedule(delay, alarm.clone()), alarm)
            };
            (0..timers / THREADS).map(schedule).unzip::<_, _, Vec<_>, Vec<_>>()
        });
        alone(&timer, settle);
        let in_time = Instant::now() < first;
        let (handles, alarms): (Vec<_>, Vec<_>) = own.into_iter().unzip();
        let alarms = alarms.concat();
        if !in_time {
            lead *= 2;
            continue;
        }
        thread::sleep(first.saturating_duration_since(Instant::now()));
        let before = cpu_time();
        wait_for_all(&alarms, first + spread + MAX_LATENESS);
        let cpu = cpu_time() - before;
        drop(handles);
        return (alarms, first, cpu);
    }
}
