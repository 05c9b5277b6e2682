//! A round: a timer, threads that use it, some of which panic, and a shutdown, often in the middle of their work.

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
use crate::life::{Probe, Records, TimerRecord, earliest, mark};
use crate::nap;
use crate::setting::Setting;

/// Time after the last use within which all timers must have ended, if their deadlines are close.
const DRAIN_LIMIT: Duration = Duration::from_secs(20);
/// Maximum number of steps of a thread.
const STEPS: usize = 20_000;

/// A handle that several threads use, and its timer's record.
pub type Shared = (Arc<TimerHandle>, &'static TimerRecord);

/// State that the threads of a round share.
pub struct Round {
    pub records: &'static Records,
    /// The thread that takes the record of this number shuts the timer down.
    pub shutdown_at: usize,
    /// The shutdown comes only after all timers have ended.
    pub drains: bool,
    pub resets_sleeps: bool,
    pub tick: Duration,
    limited: bool,
    timer: WeakTimer,
    shared: Mutex<Vec<Shared>>,
    tally: Mutex<Tally>,
}

/// Counts that the records do not contain.
#[derive(Default)]
pub struct Tally {
    /// Resets by handles that returned true.
    pub resets: u64,
    /// Resets of sleeps, which return no result.
    pub sleep_resets: u64,
    /// Threads that ended by a panic.
    pub thread_panics: u64,
    pub unfired: Vec<UnfiredTimer>,
    /// Number of shutdowns that handed timers back.
    shutdowns: u32,
}

impl Round {
    pub fn shared(&self) -> MutexGuard<'_, Vec<Shared>> {
        self.shared.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Keeps the timers that a shutdown has handed back.
    pub fn collect(&self, unfired: Unfired) {
        let mut tally = self.tally();
        tally.shutdowns += u32::from(unfired.len() > 0);
        tally.unfired.extend(unfired);
    }

    /// Records that a timer was refused.
    pub fn refused(&self, error: &ScheduleError<()>, record: &TimerRecord) {
        record.mark(mark::REFUSED);
        let expected = error.is_shutdown() || error.is_full() && self.limited;
        if !expected {
            fault::note(|| format!("a timer was refused for no reason: {error}"));
        }
    }

    /// Schedules one more timer, from inside a callback.
    pub fn continue_inside(&self) {
        if let Some(timer) = self.timer.upgrade()
            && let Some((_, [record])) = self.records.take(1)
        {
            let (probe, delay) = (Probe::new(record), self.tick);
            record.set_earliest(earliest(delay));
            match timer.schedule(delay, move || probe.run()) {
                Ok(_) => _ = record.mark(mark::ACCEPTED),
                Err(error) => self.refused(&error.without_closure(), record),
            }
        }
    }

    /// Runs a round of `length` timers, and checks how they ended.
    pub fn run(
        records: &'static Records,
        length: usize,
        threads: usize,
        mut random: Rng,
    ) -> Result<Account, Box<dyn Error>> {
        records.renew(length);
        let setting = Setting::random(&mut random);
        let panics = Arc::new(AtomicU64::new(0));
        let timer = setting.start(&panics)?;
        let drains = random.u8(..4) == 0;
        let round = Arc::new(Round {
            records,
            shutdown_at: if drains { usize::MAX } else { random.usize(..2 * length) },
            drains,
            resets_sleeps: random.bool(),
            tick: setting.tick,
            limited: setting.max_pending.is_some(),
            timer: timer.downgrade(),
            shared: Mutex::default(),
            tally: Mutex::default(),
        });
        thread::scope(|scope| {
            for _ in 0..threads {
                let (round, timer, random) = (&round, &timer, random.fork());
                scope.spawn(move || run_threads(round, timer, random));
            }
        });
        round.shared().clear();
        if drains {
            wait_until_empty(&timer, &setting);
        }
        round.collect(nap::close(&timer));

        let faults = fault::count();
        let mut tally = std::mem::take(&mut *round.tally());
        if tally.shutdowns > 1 || drains && !tally.unfired.is_empty() {
            fault::note(|| "a shutdown handed back timers that had ended".to_owned());
        }
        let unfired = std::mem::take(&mut tally.unfired);
        let account = Account::new(records.used(), &tally, unfired.len() as u64, &timer.stats());
        fault::unless_equal("payloads passed to `on_panic`", panics.load(Relaxed), account.panicked);
        drop(timer);
        account.close(records.used(), unfired);
        if fault::count() > faults {
            fault::note(|| format!("the setting of these faults: {setting}"));
        }
        Ok(account)
    }
}

fn wait_until_empty(timer: &Timer, setting: &Setting) {
    let start = Instant::now();
    while !timer.is_empty() {
        if start.elapsed() > DRAIN_LIMIT {
            return fault::note(|| format!("{} timers were lost: {setting}", timer.len()));
        }
        thread::sleep(Duration::from_micros(200));
    }
}

/// Starts threads, one after another, until the round is over. Each uses the timer for a while, and some panic.
fn run_threads(round: &Arc<Round>, timer: &Timer, mut random: Rng) {
    thread_local! {
        static USE_AT_THREAD_END: RefCell<Option<UseAtThreadEnd>> = const { RefCell::new(None) };
    }
    let mut over = false;
    while !over {
        let (steps, mut random) = (random.usize(1..STEPS), random.fork());
        let run_thread = move || {
            let [early, late, panics] = [0; 3].map(|_| random.u8(..4) == 0);
            if early {
                // Before the timer creates its thread-local state. Destructors run in reverse order, so this one then
                // runs after the timer's.
                USE_AT_THREAD_END.set(Some(UseAtThreadEnd(Actor::new(round, timer, random.fork()))));
            }
            let mut actor = Actor::new(round, timer, random);
            let over = actor.act(steps);
            if panics && !over {
                actor.panic();
            }
            if late {
                USE_AT_THREAD_END.set(Some(UseAtThreadEnd(actor)));
            }
            over
        };
        over = thread::scope(|scope| {
            // After a thread has panicked, the next one continues.
            scope.spawn(run_thread).join().unwrap_or_else(|_| {
                round.tally().thread_panics += 1;
                false
            })
        });
    }
}

/// A thread-local variable that uses the timer in its destructor, at the end of the thread.
struct UseAtThreadEnd(Actor);

impl Drop for UseAtThreadEnd {
    fn drop(&mut self) {
        self.0.act(10);
    }
}
