//! A TCP server on loopback with timeouts by corewheel, under a load in which some connections stall.
//!
//! ```text
//! cargo run --release --example server
//! ```
//!
//! | file           | contents                                                         |
//! |----------------|------------------------------------------------------------------|
//! | `args`         | the command line                                                 |
//! | `files`        | the limit of open files                                          |
//! | `timeouts`     | the two timers of a connection, and their durations              |
//! | `alarms`       | messages of timers to the thread that owns the connection        |
//! | `connection`   | a connection of the server: arms, resets and cancels its timers  |
//! | `server`       | the server's threads                                             |
//! | `client`       | a connection of the load: sends requests, waits, and may stall   |
//! | `plan`         | the parameters of the load                                       |
//! | `load`         | the load's threads, each driven by a `Wheel` of its own          |
//! | `load_process` | the load in a process of its own                                 |
//! | `verdict`      | checks that exactly the stalled connections were closed, on time |
//! | `report`       | throughput, timers and lateness                                  |

#[path = "../options.rs"]
mod options;
#[macro_use]
#[path = "../output.rs"]
mod output;

mod alarms;
mod args;
mod client;
mod connection;
mod files;
mod load;
mod load_process;
mod plan;
mod report;
mod server;
mod timeouts;
mod verdict;

use std::error::Error;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use args::Args;
use corewheel::{Executor, Stats, Timer};
use load::{Load, Tally};
use output::count;
use server::Server;
use verdict::Verdict;

/// Maximum number of faults that are printed.
const SHOWN: usize = 10;

fn main() -> ExitCode {
    match run(&Args::from_command_line()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the server under the load. Returns whether it closed the right connections.
fn run(args: &Args) -> Result<bool, Box<dyn Error>> {
    let timeouts = args.timeouts()?;
    raise_file_limit(args)?;
    if let Some(server) = args.load_of {
        load_process::run(args.plan(server, timeouts), args.threads)?;
        return Ok(true);
    }

    // A callback only sends a message and wakes a thread, so it needs no pool.
    let timer = Timer::builder().executor(Executor::Inline).build()?;
    let server = Server::start(&timer, timeouts, args.threads)?;
    let load = if args.load_apart {
        load_process::start(server.address())?
    } else {
        Load::start(args.plan(server.address(), timeouts), args.threads)?
    };
    let start = Instant::now();
    watch(&load, &timer, args.seconds + args.idle_timeout);
    let time = start.elapsed();
    let answers = load.tally().answers.load(Ordering::Relaxed);
    let load_late = Duration::from_millis(load.tally().late.load(Ordering::Relaxed));
    let outcomes = load.finish()?;
    let closed = server.stop()?;
    let stats = timer.stats();

    let mut verdict = Verdict::of(&outcomes, closed, timeouts, args.late);
    verdict.faults.extend(unaccounted(&stats));
    report::print(&verdict, &stats, answers, time);
    Ok(conclude(args, &verdict, load_late))
}

/// Raises the limit of open files to what the connections need. A connection has two ends in this process, or one if the
/// load is apart.
fn raise_file_limit(args: &Args) -> Result<(), String> {
    let ends = if args.load_apart { 1 } else { 2 };
    files::raise_limit(ends * args.connections, 2 * args.threads)
        .map_err(|error| format!("{error}, or pass fewer --connections or --load-apart"))
}

/// Prints the progress of the load until it ends, about ten times.
fn watch(load: &Load, timer: &Timer, expected: Duration) {
    let start = Instant::now();
    let mut next = expected / 10;
    while !load.is_finished() {
        thread::sleep(Duration::from_millis(100));
        let time = start.elapsed();
        if time >= next {
            next = time + expected / 10;
            let Tally { answers, .. } = load.tally();
            let rate = answers.load(Ordering::Relaxed) as f64 / time.as_secs_f64();
            let fired = timer.stats().fired;
            let (seconds, of) = (time.as_secs_f64(), expected.as_secs_f64());
            println!("{seconds:>5.1} of {of:.0} s: {} requests/s, {} timeouts", count(rate as u64), count(fired));
        }
    }
    println!();
}

/// Returns a fault if a timer was lost. After the last connection, each timer must have fired or been cancelled.
fn unaccounted(stats: &Stats) -> Option<String> {
    let Stats { scheduled, fired, cancelled, .. } = *stats;
    (scheduled != fired + cancelled)
        .then(|| format!("{scheduled} timers were armed, but {fired} fired and {cancelled} were cancelled"))
}

fn conclude(args: &Args, verdict: &Verdict, load_late: Duration) -> bool {
    let faults = &verdict.faults;
    println!();
    if faults.is_empty() {
        println!(
            "ok: closed exactly the {} connections that stalled, none early, none over {:?} late",
            verdict.as_closed.len(),
            args.late
        );
        return true;
    }
    for fault in faults.iter().take(SHOWN) {
        eprintln!("wrong: {fault}");
    }
    if faults.len() > SHOWN {
        eprintln!("wrong: .. and {} more", faults.len() - SHOWN);
    }
    if load_late > args.request_timeout / 2 {
        eprintln!("note: the load itself was {load_late:?} late: the machine is too busy for such short timeouts");
    }
    eprintln!("error: {} faults", faults.len());
    false
}
