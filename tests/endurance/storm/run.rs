//! A round: a timer, threads that use it, some of which panic, and a shutdown, often in the middle of their work.

use std::cell::RefCell;
use std::error::Error;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use corewheel::Timer;
use fastrand::Rng;

use crate::account::Account;
use crate::actor::Actor;
use crate::fault;
use crate::naps;
use crate::polled_sleep;
use crate::program_loop;
use crate::record::Records;
use crate::round::Round;
use crate::setting::Setting;

/// Time after the last use within which all timers must have ended, if their deadlines are close.
const DRAIN_LIMIT: Duration = Duration::from_secs(20);
/// Maximum number of steps of a thread.
const STEPS: usize = 20_000;

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
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..setting.loops {
            let timer = &timer;
            let is_over = &is_over;
            let random = random.fork();
            scope.spawn(move || program_loop::run(timer, is_over, random));
        }
        thread::scope(|scope| {
            for _ in 0..threads {
                let round = &round;
                let timer = &timer;
                let random = random.fork();
                scope.spawn(move || run_threads(round, timer, random));
            }
        });
        round.shared().clear();
        if drains {
            wait_until_empty(&timer, &setting);
        }
        is_over.store(true, Relaxed);
        round.collect(polled_sleep::close(&timer));
    });

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

fn wait_until_empty(timer: &Timer, setting: &Setting) {
    if !naps::wait(DRAIN_LIMIT, Duration::from_micros(200), thread::sleep, || timer.is_empty()) {
        fault::note(|| format!("{} timers were lost: {setting}", timer.len()));
    }
}

/// Starts threads, one after another, until the round is over. Each uses the timer for a while, and some panic.
fn run_threads(round: &Arc<Round>, timer: &Timer, mut random: Rng) {
    thread_local! {
        static USE_AT_THREAD_END: RefCell<Option<UseAtThreadEnd>> = const { RefCell::new(None) };
    }
    let mut over = false;
    while !over {
        let steps = random.usize(1..STEPS);
        let mut random = random.fork();
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
