//! A round: a timer, threads that use it and die, and a shutdown in the middle of it.

use std::cell::RefCell;
use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use corewheel::{ScheduleError, Timer, TimerHandle, Unfired, UnfiredTimer, WeakTimer};
use fastrand::Rng;

use crate::account::Account;
use crate::actor::Actor;
use crate::fault;
use crate::life::{Life, Lives, Soul, floor, mark};
use crate::nap;
use crate::setting::Setting;

/// For how long a timer whose deadlines are all close may be in use once nobody uses it any more.
const PATIENCE: Duration = Duration::from_secs(20);
/// The most steps that a thread takes in its life.
const STEPS: usize = 20_000;

/// A handle that any number of threads use, and its timer's life.
pub type Shared = (Arc<TimerHandle>, &'static Life);

/// What the threads of a round have in common.
pub struct Round {
    pub lives: &'static Lives,
    /// Whoever takes the life of this number shuts the timer down.
    pub shutdown_at: usize,
    /// There is no shutdown before everything has ended by itself.
    pub patient: bool,
    pub moves_naps: bool,
    pub tick: Duration,
    limited: bool,
    timer: WeakTimer,
    shared: Mutex<Vec<Shared>>,
    tally: Mutex<Tally>,
}

/// What is not told by the lives.
#[derive(Default)]
pub struct Tally {
    /// How many resets of handles were told that they moved their timer.
    pub moved: u64,
    /// Resets of sleeps, which are told nothing.
    pub naps_moved: u64,
    pub deaths: u64,
    pub unfired: Vec<UnfiredTimer>,
    /// How many shutdowns handed something back.
    shutdowns: u32,
}

impl Round {
    pub fn shared(&self) -> MutexGuard<'_, Vec<Shared>> {
        self.shared.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Keeps what a shutdown has handed back.
    pub fn collect(&self, unfired: Unfired) {
        let mut tally = self.tally();
        tally.shutdowns += u32::from(unfired.len() > 0);
        tally.unfired.extend(unfired);
    }

    /// A timer was refused.
    pub fn refused(&self, error: &ScheduleError<()>, life: &Life) {
        life.mark(mark::REFUSED);
        let expected = error.is_shutdown() || error.is_full() && self.limited;
        if !expected {
            fault::note(|| format!("a timer was refused for no reason: {error}"));
        }
    }

    /// Schedules one more timer, from inside a callback.
    pub fn continue_inside(&self) {
        if let Some(timer) = self.timer.upgrade()
            && let Some((_, [life])) = self.lives.take(1)
        {
            let (soul, delay) = (Soul::new(life), self.tick);
            life.aim(floor(delay));
            match timer.schedule(delay, move || soul.run()) {
                Ok(_) => _ = life.mark(mark::ACCEPTED),
                Err(error) => self.refused(&error.without_closure(), life),
            }
        }
    }

    /// Makes a round of `length` timers, and settles its account.
    pub fn run(
        lives: &'static Lives,
        length: usize,
        threads: usize,
        mut random: Rng,
    ) -> Result<Account, Box<dyn Error>> {
        lives.renew(length);
        let setting = Setting::random(&mut random);
        let panics = Arc::new(AtomicU64::new(0));
        let timer = setting.start(&panics)?;
        let patient = random.u8(..4) == 0;
        let round = Arc::new(Round {
            lives,
            shutdown_at: if patient { usize::MAX } else { random.usize(..2 * length) },
            patient,
            moves_naps: random.bool(),
            tick: setting.tick,
            limited: setting.max_pending.is_some(),
            timer: timer.downgrade(),
            shared: Mutex::default(),
            tally: Mutex::default(),
        });
        thread::scope(|scope| {
            for _ in 0..threads {
                let (round, timer, random) = (&round, &timer, random.fork());
                scope.spawn(move || live_and_die(round, timer, random));
            }
        });
        round.shared().clear();
        if patient {
            wait_until_empty(&timer, &setting);
        }
        round.collect(nap::close(&timer));

        let faults = fault::count();
        let mut tally = std::mem::take(&mut *round.tally());
        if tally.shutdowns > 1 || patient && !tally.unfired.is_empty() {
            fault::note(|| "a shutdown handed back what it had not".to_owned());
        }
        let unfired = std::mem::take(&mut tally.unfired);
        let account = Account::settle(lives.used(), &tally, unfired.len() as u64, &timer.stats());
        fault::unless_equal("payloads given to `on_panic`", panics.load(Relaxed), account.panicked);
        drop(timer);
        account.close(lives.used(), unfired);
        if fault::count() > faults {
            fault::note(|| format!("all this with {setting}"));
        }
        Ok(account)
    }
}

fn wait_until_empty(timer: &Timer, setting: &Setting) {
    let start = Instant::now();
    while !timer.is_empty() {
        if start.elapsed() > PATIENCE {
            return fault::note(|| format!("{} timers got lost: {setting}", timer.len()));
        }
        thread::sleep(Duration::from_micros(200));
    }
}

/// Threads, one after the other, until the round is over: each uses the timer for a while, and some die by a panic.
fn live_and_die(round: &Arc<Round>, timer: &Timer, mut random: Rng) {
    thread_local! {
        static AFTERLIFE: RefCell<Option<Afterlife>> = const { RefCell::new(None) };
    }
    let mut over = false;
    while !over {
        let (steps, mut random) = (random.usize(1..STEPS), random.fork());
        let life = move || {
            let [early, late, dies] = [0; 3].map(|_| random.u8(..4) == 0);
            if early {
                // Before the timer keeps anything for this thread, as destructors run in the reverse order.
                AFTERLIFE.set(Some(Afterlife(Actor::new(round, timer, random.fork()))));
            }
            let mut actor = Actor::new(round, timer, random);
            let over = actor.act(steps);
            if dies && !over {
                actor.die();
            }
            if late {
                AFTERLIFE.set(Some(Afterlife(actor)));
            }
            over
        };
        over = thread::scope(|scope| {
            // A thread that has died leaves the rest to others.
            scope.spawn(life).join().unwrap_or_else(|_| {
                round.tally().deaths += 1;
                false
            })
        });
    }
}

/// Uses the timer when its thread has ended, but for the destructors of its thread-local variables.
struct Afterlife(Actor);

impl Drop for Afterlife {
    fn drop(&mut self) {
        self.0.act(10);
    }
}
