//! The hunt for lost wake-ups: few timers and long gaps, so that nobody else's timer wakes a driver that should have been
//! woken; and they are scheduled around the instant at which it goes to sleep.

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
use crate::life::now;
use crate::setting::Setting;

/// Later than this a timer was found by accident only.
const BOUND: Duration = Duration::from_secs(5);
const HOUR: Duration = Duration::from_secs(3600);

/// What was hunted, and the latest of it.
#[derive(Default)]
pub struct Bag {
    pub shots: u64,
    pub latest: Duration,
}

/// Has each thread schedule so many timers, one when the last has fired.
pub fn run(shots: u64, threads: usize, mut random: Rng) -> Result<Bag, Box<dyn Error>> {
    let setting = Setting::random(&mut random).unlimited();
    let timer = setting.start(&Arc::default())?;
    let latest = thread::scope(|scope| {
        let hunters: Vec<_> = (0..threads)
            .map(|_| {
                let (timer, setting, random) = (&timer, &setting, random.fork());
                scope.spawn(move || Hunter::new(timer, random).hunt(shots, setting))
            })
            .collect();
        hunters.into_iter().filter_map(|hunter| hunter.join().ok()).max().unwrap_or_default()
    });
    Ok(Bag { shots: shots * threads as u64, latest })
}

struct Hunter<'a> {
    timer: &'a Timer,
    random: Rng,
    hit: Arc<Hit>,
}

/// Where a timer that fires says so.
struct Hit {
    at: AtomicU64,
    hunter: Thread,
}

impl Hit {
    fn tell(&self) {
        self.at.store(now(), Ordering::Release);
        self.hunter.unpark();
    }
}

impl Wake for Hit {
    fn wake(self: Arc<Self>) {
        self.tell();
    }
}

impl<'a> Hunter<'a> {
    fn new(timer: &'a Timer, random: Rng) -> Self {
        Self { timer, random, hit: Arc::new(Hit { at: AtomicU64::new(0), hunter: thread::current() }) }
    }

    /// Returns the worst lateness.
    fn hunt(mut self, shots: u64, setting: &Setting) -> Duration {
        let mut latest = Duration::ZERO;
        for _ in 0..shots {
            self.pause();
            let Some(late) = self.shoot() else {
                fault::note(|| format!("a wake-up was lost: a timer was over {BOUND:?} late with {setting}"));
                return BOUND;
            };
            latest = latest.max(late);
        }
        latest
    }

    /// A random time: until the driver or a worker goes to sleep, or until all of them sleep.
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

    /// Has a timer fire in one of several ways. Returns how late it was; `None` if it did not come.
    fn shoot(&mut self) -> Option<Duration> {
        self.hit.at.store(0, Ordering::Relaxed);
        let delay = Duration::from_micros(self.random.u64(..1000)) * self.random.u32(..2);
        let due = now() + delay.as_nanos() as u64;
        // What is moved must be there before, and the driver asleep until its old deadline.
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
                let waker = Waker::from(self.hit.clone());
                if sleep.as_mut().poll(&mut Context::from_waker(&waker)) == Poll::Ready(()) {
                    return Some(Duration::ZERO);
                }
                return self.wait(due);
            }
        }
        self.wait(due)
    }

    fn schedule(&self, delay: Duration) -> Option<TimerHandle> {
        let hit = self.hit.clone();
        self.timer.schedule(delay, move || hit.tell()).ok()
    }

    fn wait(&self, due: u64) -> Option<Duration> {
        let end = Instant::now() + BOUND;
        loop {
            let at = self.hit.at.load(Ordering::Acquire);
            if at > 0 {
                if at < due {
                    fault::note(|| "a timer of the hunt was early".to_owned());
                }
                return Some(Duration::from_nanos(at.saturating_sub(due)));
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            thread::park_timeout(left);
        }
    }
}
