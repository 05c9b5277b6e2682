//! Stock holds that survive the process: an order service keeps them in an embedded store, and only those that expire
//! soon have a timer. This program kills the service repeatedly in the middle of its work. In the end every hold has
//! been confirmed or released exactly once.
//!
//! ```text
//! cargo run --release -p durable_holds
//! ```
//!
//! | file      | contents                                                                      |
//! |-----------|-------------------------------------------------------------------------------|
//! | `main`    | starts the service, kills it, starts it again, checks the store               |
//! | `service` | one run of the service: its events, and the timers of the next second         |
//! | `store`   | the tables that survive, and the transactions on them                         |
//!
//! The README explains what changes with a database on another machine, and with many services.

#[macro_use]
#[path = "../../output.rs"]
mod output;

mod service;
mod store;

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{env, fs, process, thread};

use clap::{Parser, ValueEnum};
use corewheel::Timer;
use service::{Halt, Progress};
use store::{Account, Store};

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

/// A run of the service that takes longer is killed: it hangs.
const RUN_LIMIT: Duration = Duration::from_secs(60);
/// Pause between two runs of the service, in which holds expire.
const DOWNTIME: Duration = Duration::from_millis(600);

/// Kills an order service repeatedly, and checks that each of its stock holds ends exactly once.
#[derive(Parser)]
struct Args {
    /// Number of holds that customers place.
    #[arg(long, default_value_t = 6_000, value_parser = clap::value_parser!(u64).range(1..))]
    holds: u64,
    /// Runs the service on this store until every hold has ended, or until the process is killed.
    #[arg(long, hide = true)]
    serve: Option<PathBuf>,
    /// The point at which that run stops and waits to be killed.
    #[arg(long, hide = true)]
    halt: Option<Halt>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    match args.serve {
        Some(path) => service::serve(&Store::open(&path)?, args.holds, args.halt),
        None => {
            let path = env::temp_dir().join(format!("durable-holds-{}.redb", process::id()));
            let result = run_until_all_end(&path, args.holds);
            fs::remove_file(&path)?;
            result
        }
    }
}

/// Runs the service and kills it several times, then runs it until every hold has ended.
fn run_until_all_end(path: &Path, holds: u64) -> Result<()> {
    run_service(path, holds, None, |progress| progress.placed >= holds / 3)?;
    check(path, "killed while holds are placed")?;
    for _ in 0..3 {
        run_service(path, holds, None, |progress| progress.released >= holds / 20)?;
        check(path, "killed while holds are released")?;
    }
    for (halt, when) in [
        (Halt::BeforeCommit, "killed when a transaction had released holds, before it was committed"),
        (Halt::AfterCommit, "killed right after such a commit"),
    ] {
        if run_service(path, holds, Some(halt), |_| false)? {
            return Err("a run that stops should have been killed".into());
        }
        check(path, when)?;
    }
    if !run_service(path, holds, None, |_| false)? {
        return Err("the last run should have ended by itself".into());
    }
    let account = check(path, "ended by itself")?;
    if account.ended() != holds {
        return Err(format!("{} of {holds} holds have ended", account.ended()).into());
    }
    println!("ok: every hold has ended once; none was released early, and the stock is exact");
    Ok(())
}

/// Runs the service in a process of its own. Kills it soon after `should_kill` returns true, or at the point `halt`.
/// Returns whether the process ended by itself.
fn run_service(path: &Path, holds: u64, halt: Option<Halt>, should_kill: impl Fn(Progress) -> bool) -> Result<bool> {
    let mut command = Command::new(env::current_exe()?);
    command.arg("--serve").arg(path).args(["--holds", &holds.to_string()]);
    if let Some(halt) = halt.and_then(|halt| halt.to_possible_value()) {
        command.args(["--halt", halt.get_name()]);
    }
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
    let child = Arc::new(Mutex::new(child));
    let watchdog = {
        let child = child.clone();
        Timer::global().schedule(RUN_LIMIT, move || kill(&child))?.cancel_on_drop()
    };
    let mut progress = Progress::default();
    for line in lines {
        let line = line?;
        if line == Halt::LINE {
            kill(&child);
            break;
        }
        progress = line.parse()?;
        if should_kill(progress) {
            // Kill it at a random point of one of the next transactions.
            thread::sleep(Duration::from_micros(fastrand::u64(..200_000)));
            kill(&child);
            break;
        }
    }
    let status = child.lock().map_err(|_| "poisoned")?.wait()?;
    drop(watchdog);
    println!("a run: {progress}");
    thread::sleep(DOWNTIME);
    Ok(status.success())
}

/// Kills the process, with SIGKILL on Unix. Does nothing if it has ended.
fn kill(child: &Mutex<Child>) {
    if let Ok(mut child) = child.lock() {
        let _ = child.kill();
    }
}

/// Checks the store, which must be consistent after every kill.
fn check(path: &Path, when: &str) -> Result<Account> {
    let account = Store::open(path)?.account()?;
    println!("{when}: {account}");
    account.check()?;
    Ok(account)
}
