//! W8: a few callbacks are slow.

use std::sync::Arc;
use std::task::Wake;
use std::thread;
use std::time::{Duration, Instant};

use super::Scale;
use crate::case::Case;
use crate::contender::Contender;
use crate::harness::laps::alone;
use crate::measured::Measured;
use crate::target::{Alarm, Lateness, wait_for_all};

const TIMERS: usize = 1000;
/// One in so many is slow.
const SLOW: usize = 250;
const POOL: usize = 8;
/// How far the deadlines are apart: within a tick, and in order for those who tell them apart.
const STEP: Duration = Duration::from_nanos(200);
const LEAD: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(10);

pub fn cases<C: Contender>(scale: Scale) -> Vec<Case> {
    let nap = scale.pick(Duration::from_millis(200), Duration::from_millis(50));
    vec![Case::new(format!("4 of {TIMERS} sleep {nap:?}"), move || slow::<C>(nap))]
}

struct Sleeper {
    alarm: Arc<Alarm>,
    nap: Duration,
}

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        thread::sleep(self.nap);
        self.alarm.clone().wake();
    }
}

fn slow<C: Contender>(nap: Duration) -> Measured {
    let timer = Arc::new(C::start(POOL));
    let first = Instant::now() + LEAD;
    let (_handles, alarms): (Vec<_>, Vec<_>) = alone(&timer, move |timer| {
        let schedule = |place| {
            let due = first + STEP * place as u32;
            let (alarm, delay) = (Alarm::new(due), due.saturating_duration_since(Instant::now()));
            let is_slow = place % SLOW == SLOW / 2;
            let handle = if is_slow {
                timer.schedule(delay, Arc::new(Sleeper { alarm: alarm.clone(), nap }))
            } else {
                timer.schedule(delay, alarm.clone())
            };
            (handle, (is_slow, alarm))
        };
        (0..TIMERS).map(schedule).unzip()
    });
    let all: Vec<_> = alarms.iter().map(|(_, alarm)| alarm.clone()).collect();
    wait_for_all(&all, first + LEAD + PATIENCE);
    let others = alarms.iter().filter(|(is_slow, _)| !is_slow).map(|(_, alarm)| alarm);
    Lateness::of(others).add_to(Measured::default())
}
