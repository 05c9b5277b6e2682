//! A storm: a hundred million timers on the real clock through every race there is, and an exact account at the end.
//!
//! ```text
//! cargo run --release --example storm
//! ```
//!
//! | file      | concern                                                                        |
//! |-----------|--------------------------------------------------------------------------------|
//! | `args`    | the command line                                                               |
//! | `setting` | how the timer of a round is built                                              |
//! | `life`    | the life of one timer, as its closure and those who handle it tell it          |
//! | `course`  | a repeating callback                                                           |
//! | `stay`    | how a callback keeps its thread                                                |
//! | `nap`     | a sleep, polled by hand                                                        |
//! | `actor`   | what a thread does                                                             |
//! | `round`   | a timer, threads that use it and die, and a shutdown in the middle of it       |
//! | `account` | what became of every timer, and whether `stats` says the same                  |
//! | `hunt`    | the hunt for lost wake-ups                                                     |
//! | `fault`   | what has gone wrong so far                                                     |

mod account;
mod actor;
mod args;
mod course;
mod fault;
mod hunt;
mod life;
mod nap;
mod round;
mod setting;
mod stay;

use std::error::Error;
use std::process::{self, ExitCode};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use account::Account;
use args::Args;
use clap::Parser;
use fastrand::Rng;
use hunt::Bag;
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use life::Lives;
use round::Round;

/// The timers of the longest round.
const LONGEST: usize = 1 << 19;
/// How many timers each thread hunts with at once.
const SHOTS: u64 = 25;
/// At the most so many threads hunt, as idle as the machine must be.
const HUNTERS: usize = 4;
/// A storm that makes no progress for so long hangs.
const HANGS: Duration = Duration::from_secs(120);

/// What a storm has come to.
#[derive(Default)]
struct Outcome {
    rounds: u64,
    account: Account,
    bag: Bag,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..));
    println!("{} timers from {} threads, seed {seed}", HumanCount(args.timers), args.threads);
    let (done, start) = (AtomicU64::new(0), Instant::now());
    let outcome = thread::scope(|scope| {
        let storm = scope.spawn(|| storm(&args, seed, &done).map_err(|error| error.to_string()));
        watch(&args, seed, &done, || storm.is_finished());
        storm.join().unwrap_or_else(|_| Err("the storm itself has panicked".to_owned()))
    });
    match outcome {
        Ok(outcome) => report(&outcome, start.elapsed()),
        Err(error) => fault::note(|| error),
    }
    fault::tell();
    if fault::count() > 0 {
        eprintln!("error: {} faults; run again with --seed {seed} --threads {}", fault::count(), args.threads);
        return ExitCode::FAILURE;
    }
    println!("ok: every timer ended in exactly one way, none early");
    ExitCode::SUCCESS
}

/// Makes rounds, with a hunt after every other, until there were as many timers, or something is wrong.
fn storm(args: &Args, seed: u64, done: &AtomicU64) -> Result<Outcome, Box<dyn Error>> {
    let lives = Lives::new(LONGEST.min(args.timers as usize));
    let mut random = Rng::with_seed(seed);
    let mut outcome = Outcome::default();
    while done.load(Ordering::Relaxed) < args.timers && fault::count() == 0 {
        let longest = (args.timers / 16).clamp(16, LONGEST as u64).ilog2();
        // As many short rounds as long ones, as the end is the most interesting part.
        let octave = random.u32(4..=longest);
        let length = random.usize(1 << octave..2 << octave).min(LONGEST);
        let account = Round::run(lives, length, args.threads, random.fork())?;
        done.fetch_add(account.scheduled + account.sleeps, Ordering::Relaxed);
        outcome.account += account;
        outcome.rounds += 1;
        if outcome.rounds.is_multiple_of(8) {
            let bag = hunt::run(SHOTS, args.threads.min(HUNTERS), random.fork())?;
            done.fetch_add(bag.shots, Ordering::Relaxed);
            outcome.bag.shots += bag.shots;
            outcome.bag.latest = outcome.bag.latest.max(bag.latest);
        }
    }
    Ok(outcome)
}

/// Shows how far the storm is, until it ends; ends the process if it never does.
fn watch(args: &Args, seed: u64, done: &AtomicU64, ended: impl Fn() -> bool) {
    let style = ProgressStyle::with_template("{wide_bar} {human_pos}/{human_len} {per_sec} {eta}");
    let bar = ProgressBar::new(args.timers).with_style(style.expect("the template is right"));
    let mut last = (0, Instant::now());
    while !ended() {
        let position = done.load(Ordering::Relaxed);
        if position != last.0 {
            last = (position, Instant::now());
        }
        if last.1.elapsed() > HANGS {
            fault::tell();
            eprintln!("error: no progress for {HANGS:?}; run again with --seed {seed} --threads {}", args.threads);
            process::exit(1);
        }
        bar.set_position(position.min(args.timers));
        thread::sleep(Duration::from_millis(50));
    }
    bar.finish_and_clear();
}

fn report(outcome: &Outcome, time: Duration) {
    let Outcome { rounds, account, bag } = outcome;
    let timers = account.scheduled + account.sleeps + bag.shots;
    let lines = [
        ("rounds", *rounds),
        ("callbacks scheduled", account.scheduled),
        ("  completed", account.completed),
        ("  cancelled", account.cancelled),
        ("  handed back", account.unfired),
        ("refused", account.refused),
        ("sleeps", account.sleeps),
        ("  dropped pending", account.sleeps_dropped),
        ("runs and wakes", account.fired),
        ("  slow", account.slow),
        ("moves", account.moved),
        ("panics", account.panicked),
        ("threads that died", account.deaths),
        ("hunted one by one", bag.shots),
    ];
    for (name, count) in lines {
        println!("{name:<20} {:>14}", HumanCount(count).to_string());
    }
    println!("{:<20} {:>14.1?}", "the latest of these", bag.latest);
    let rate = timers as f64 / time.as_secs_f64();
    println!("{} timers in {time:.1?}: {} a second", HumanCount(timers), HumanCount(rate as u64));
}
