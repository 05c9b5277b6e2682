//! A storm: a hundred million timers on the real clock, in races of many kinds, with an exact account at the end.
//!
//! ```text
//! cargo run --release -p endurance --example storm
//! ```
//!
//! | file           | contents                                                           |
//! |----------------|--------------------------------------------------------------------|
//! | `args`         | the command line                                                   |
//! | `setting`      | the random configuration of a round's timer                        |
//! | `record`       | the record of one timer                                            |
//! | `repeating`    | a repeating callback                                               |
//! | `slow_run`     | a callback that keeps its thread busy                              |
//! | `rayon_work`   | a callback that gives work to rayon                                |
//! | `program_loop` | a loop of the program's that drives a shard                        |
//! | `polled_sleep` | a sleep that is polled without an executor                         |
//! | `round`        | what the threads of a round share                                  |
//! | `tally`        | counts that the records do not contain                             |
//! | `actor`        | the random steps of a thread                                       |
//! | `run`          | a timer, threads that use it, some of which panic, and a shutdown  |
//! | `account`      | counts how every timer ended, and compares the counts with `stats` |
//! | `hunt`         | the hunt for lost wake-ups                                         |
//! | `naps`         | waits that a stop of the whole process does not end                |
//! | `fault`        | the faults found so far                                            |

mod account;
mod actor;
mod args;
mod fault;
mod hunt;
mod naps;
mod polled_sleep;
mod program_loop;
mod rayon_work;
mod record;
mod repeating;
mod round;
mod run;
mod setting;
mod slow_run;
mod tally;

use std::error::Error;
use std::process::{self, ExitCode};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use account::Account;
use args::Args;
use clap::Parser;
use fastrand::Rng;
use hunt::HuntResult;
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use record::Records;

/// Number of timers of the longest round.
const LONGEST: usize = 1 << 19;
/// Number of timers of each thread in a hunt.
const HUNT_TIMERS: u64 = 25;
/// Maximum number of threads in a hunt, for which the machine must be idle.
const HUNTERS: usize = 4;
/// A storm that makes no progress for this time hangs.
const HANGS: Duration = Duration::from_secs(120);

/// The result of a storm.
#[derive(Default)]
struct Outcome {
    rounds: u64,
    account: Account,
    hunts: HuntResult,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..));
    println!("{} timers from {} threads, seed {seed}", HumanCount(args.timers), args.threads);
    let done = AtomicU64::new(0);
    let start = Instant::now();
    let outcome = thread::scope(|scope| {
        let storm = scope.spawn(|| storm(&args, seed, &done).map_err(|error| error.to_string()));
        watch(&args, seed, &done, || storm.is_finished());
        storm.join().unwrap_or_else(|_| Err("the storm itself has panicked".to_owned()))
    });
    match outcome {
        Ok(outcome) => report(&outcome, start.elapsed()),
        Err(error) => fault::note(|| error),
    }
    fault::print();
    if fault::count() > 0 {
        eprintln!("error: {} faults; run again with --seed {seed} --threads {}", fault::count(), args.threads);
        return ExitCode::FAILURE;
    }
    println!("ok: every timer ended in exactly one way, none early");
    ExitCode::SUCCESS
}

/// Runs rounds, with a hunt after every eighth, until all timers were scheduled or a fault was found.
fn storm(args: &Args, seed: u64, done: &AtomicU64) -> Result<Outcome, Box<dyn Error>> {
    let records = Records::new(LONGEST.min(args.timers as usize));
    let mut random = Rng::with_seed(seed);
    let mut outcome = Outcome::default();
    while done.load(Ordering::Relaxed) < args.timers && fault::count() == 0 {
        let longest = (args.timers / 16).clamp(16, LONGEST as u64).ilog2();
        // Short rounds are as frequent as long ones, because the shutdown at the end is the most interesting part.
        let octave = random.u32(4..=longest);
        let length = random.usize(1 << octave..2 << octave).min(LONGEST);
        let account = run::run(records, length, args.threads, random.fork())?;
        done.fetch_add(account.scheduled + account.sleeps, Ordering::Relaxed);
        outcome.account += account;
        outcome.rounds += 1;
        if outcome.rounds.is_multiple_of(8) {
            let hunt = hunt::run(HUNT_TIMERS, args.threads.min(HUNTERS), random.fork())?;
            done.fetch_add(hunt.timers, Ordering::Relaxed);
            outcome.hunts.timers += hunt.timers;
            outcome.hunts.latest = outcome.hunts.latest.max(hunt.latest);
        }
    }
    Ok(outcome)
}

/// Shows the progress of the storm until it ends. Ends the process if the storm hangs, but not because the process was
/// stopped.
fn watch(args: &Args, seed: u64, done: &AtomicU64, ended: impl Fn() -> bool) {
    let style = ProgressStyle::with_template("{wide_bar} {human_pos}/{human_len} {per_sec} {eta}");
    let bar = ProgressBar::new(args.timers).with_style(style.expect("the template is valid"));
    while !ended() {
        let position = done.load(Ordering::Relaxed);
        bar.set_position(position.min(args.timers));
        let moves = || ended() || done.load(Ordering::Relaxed) != position;
        if !naps::wait(HANGS, Duration::from_millis(50), thread::sleep, moves) {
            fault::print();
            eprintln!("error: no progress for {HANGS:?}; run again with --seed {seed} --threads {}", args.threads);
            process::exit(1);
        }
    }
    bar.finish_and_clear();
}

fn report(outcome: &Outcome, time: Duration) {
    let Outcome { rounds, account, hunts } = outcome;
    let timers = account.scheduled + account.sleeps + hunts.timers;
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
        ("resets", account.resets),
        ("panics", account.panicked),
        ("threads that panicked", account.thread_panics),
        ("timers of hunts", hunts.timers),
    ];
    for (name, count) in lines {
        println!("{name:<22} {:>14}", HumanCount(count).to_string());
    }
    println!("{:<22} {:>14.1?}", "maximum lateness there", hunts.latest);
    let rate = timers as f64 / time.as_secs_f64();
    println!("{} timers in {time:.1?}: {} a second", HumanCount(timers), HumanCount(rate as u64));
}
