//! W8: a few callbacks block the thread that they run on.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::scale::Scale;
use crate::case::Case;
use crate::contender::Contender;
use crate::harness::threads::alone;
use crate::measured::Measured;
use crate::target::{Alarm, Lateness, Slow, spin, wait_for_all};

/// Time from the first deadline to the last: within a tick, but in order for contenders with a finer resolution.
const SPREAD: Duration = Duration::from_micros(100);
const LEAD: Duration = Duration::from_millis(50);
/// Maximum lateness, in addition to the time of all slow callbacks one after another.
const MAX_LATENESS: Duration = Duration::from_secs(10);

#[derive(Clone, Copy)]
pub struct Load {
    pub timers: usize,
    /// Number of slow timers, at equal distances among the others.
    pub slow: usize,
    /// Blocks the thread of a slow callback.
    pub block: fn(Duration),
    /// Duration of a slow callback.
    pub time: Duration,
}

pub fn cases<C: Contender>(scale: Scale) -> Vec<Case> {
    let time = scale.pick(Duration::from_millis(200), Duration::from_millis(20));
    let few = Load { timers: 1000, slow: 4, block: thread::sleep, time };
    let (timers, slow) = scale.pick((5000, 100), (1000, 20));
    let case = |load: Load, what| {
        let name = format!("{} of {} {what} {time:?}", load.slow, load.timers);
        Case::new(name, move || fire(&Arc::new(C::start()), load).add_to(Measured::default(), &[50.0, 99.0])).blocking()
    };
    vec![
        case(few, "sleep"),
        case(Load { timers, slow, ..few }, "sleep"),
        case(Load { slow: 1, block: spin, ..few }, "spins"),
    ]
}

/// Schedules the timers for about the same deadline, and waits for all of them. Returns the lateness of those that are
/// not slow.
pub fn fire<C: Contender>(timer: &Arc<C>, load: Load) -> Lateness {
    let first = Instant::now() + LEAD;
    let (_handles, alarms): (Vec<_>, Vec<_>) = alone(timer, move |timer| {
        let distance = load.timers / load.slow;
        let schedule = |index| {
            let due = first + SPREAD * index as u32 / load.timers as u32;
            let alarm = Alarm::new(due);
            let delay = due.saturating_duration_since(Instant::now());
            let is_slow = index % distance == distance / 2;
            let handle = if is_slow {
                timer.schedule(delay, Arc::new(Slow { alarm: alarm.clone(), block: load.block, time: load.time }))
            } else {
                timer.schedule(delay, alarm.clone())
            };
            (handle, (is_slow, alarm))
        };
        (0..load.timers).map(schedule).unzip()
    });
    let all: Vec<_> = alarms.iter().map(|(_, alarm)| alarm.clone()).collect();
    wait_for_all(&all, first + load.time * load.slow as u32 + MAX_LATENESS);
    Lateness::of(alarms.iter().filter(|(is_slow, _)| !is_slow).map(|(_, alarm)| alarm))
}
