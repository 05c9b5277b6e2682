//! The hunt for lost wake-ups. Timers are few and the gaps between them long, so no other timer wakes a driver that has
//! missed its wake-up. The threads schedule around the instant at which the driver goes to sleep.

use std::error::Error;
use std::future::Future;
use std::hint;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use corewheel::{Timer, TimerHandle};
use fastrand::Rng;

use crate::fault;
use crate::naps;
use crate::record::now;
use crate::setting::Setting;

/// A timer that is later than this has lost its wake-up.
const BOUND: Duration = Duration::from_secs(5);
const HOUR: Duration = Duration::from_secs(3600);

/// The number of timers of a hunt, and the maximum lateness.
#[derive(Default)]
pub struct HuntResult {
    pub timers: u64,
    pub latest: Duration,
}

/// Lets each thread schedule `timers` timers, each after the one before has fired.
pub fn run(timers: u64, threads: usize, mut random: Rng) -> Result<HuntResult, Box<dyn Error>> {
    let setting = Setting::random(&mut random).unlimited();
    let service = setting.start(&Arc::default())?;
    let latest = thread::scope(|scope| {
        let hunters: Vec<_> = (0..threads)
            .map(|_| {
                let service = &service;
                let setting = &setting;
                let random = random.fork();
                scope.spawn(move || Hunter::new(service, random).hunt(timers, setting))
            })
            .collect();
        hunters.into_iter().filter_map(|hunter| hunter.join().ok()).max().unwrap_or_default()
    });
    Ok(HuntResult { timers: timers * threads as u64, latest })
}

struct Hunter<'a> {
    timer: &'a Timer,
    random: Rng,
    signal: Arc<Signal>,
}

/// Set by a timer that fires; wakes the thread that waits for it.
struct Signal {
    at: AtomicU64,
    hunter: Thread,
}

impl Signal {
    fn set(&self) {
        self.at.store(now(), Ordering::Release);
        self.hunter.unpark();
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.set();
    }
}

impl<'a> Hunter<'a> {
    fn new(timer: &'a Timer, random: Rng) -> Self {
        Self { timer, random, signal: Arc::new(Signal { at: AtomicU64::new(0), hunter: thread::current() }) }
    }

    /// Schedules the timers, and returns the maximum lateness.
    fn hunt(mut self, timers: u64, setting: &Setting) -> Duration {
        let mut latest = Duration::ZERO;
        for _ in 0..timers {
            self.pause();
            let Some(late) = self.fire_one() else {
                fault::note(|| format!("a wake-up was lost: a timer was over {BOUND:?} late with {setting}"));
                return BOUND;
            };
            latest = latest.max(late);
        }
        latest
    }

    /// Waits for a random time: about until the driver or a worker goes to sleep, or until all of them sleep.
    fn pause(&mut self) {
        let micros = match self.random.u8(..64) {
            0 => return thread::sleep(Duration::from_micros(self.random.u64(40_000..60_000))),
            1..=4 => return thread::sleep(Duration::from_micros(self.random.u64(1_500..2_500))),
            5..=20 => self.random.u64(..300),
            _ => self.random.u64(..20),
        };
        let end = Instant::now() + Duration::from_micros(micros);
        while Instant::now() < end {
            hint::spin_loop();
        }
    }

    /// Waits for a timer that is armed in one of several ways. Returns its lateness; `None` if it did not fire.
    fn fire_one(&mut self) -> Option<Duration> {
        self.signal.at.store(0, Ordering::Relaxed);
        let delay = Duration::from_micros(self.random.u64(..1000)) * self.random.u32(..2);
        let due = now() + delay.as_nanos() as u64;
        // A timer to be reset must be pending, and the driver must sleep until its old deadline.
        match self.random.u8(..4) {
            0 => self.schedule(delay).map(drop)?,
            1 => {
                let handle = self.schedule(HOUR)?;
                self.pause();
                handle.reset(delay).then_some(())?;
            }
            2 => {
                let handle = self.schedule(HOUR)?;
                handle.cancel();
                drop(handle);
                self.schedule(delay).map(drop)?;
            }
            _ => {
                let mut sleep = pin!(self.timer.sleep(delay));
                let waker = Waker::from(self.signal.clone());
                if sleep.as_mut().poll(&mut Context::from_waker(&waker)) == Poll::Ready(()) {
                    return Some(Duration::ZERO);
                }
                return self.wait(due);
            }
        }
        self.wait(due)
    }

    fn schedule(&self, delay: Duration) -> Option<TimerHandle> {
        let signal = self.signal.clone();
        self.timer.schedule(delay, move || signal.set()).ok()
    }

    fn wait(&self, due: u64) -> Option<Duration> {
        let fired = || self.signal.at.load(Ordering::Acquire) > 0;
        naps::wait(BOUND, Duration::from_millis(100), thread::park_timeout, fired).then(|| {
            let at = self.signal.at.load(Ordering::Acquire);
            if at < due {
                fault::note(|| "a timer of the hunt was early".to_owned());
            }
            Duration::from_nanos(at.saturating_sub(due))
        })
    }
}
