//! Stock holds that survive the process: an order service keeps them in an embedded store, and the timer holds those that
//! are due soon. The service is killed, again and again, in the middle of its work; in the end every hold has been confirmed or
//! released, once.
//!
//! ```text
//! cargo run --release -p durable_holds
//! ```
//!
//! | file      | concern                                                                       |
//! |-----------|-------------------------------------------------------------------------------|
//! | `main`    | the story: starts the service, kills it, starts it again, asks for the account |
//! | `service` | one life of the service: its events, and the near horizon in the timer        |
//! | `store`   | what survives: the tables, and the transactions on them                       |
//!
//! What changes with a database on another machine, and with many services, is told in `docs/durable.md`.

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

/// A life that takes longer than this hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// For how long nobody is there after a kill: holds fall due meanwhile.
const DOWN: Duration = Duration::from_millis(600);

/// An order service whose holds survive it.
#[derive(Parser)]
struct Args {
    /// How many holds customers place.
    #[arg(long, default_value_t = 6_000)]
    holds: u64,
    /// Lives one life of the service on this store, until every hold has ended or it is killed.
    #[arg(long, hide = true)]
    serve: Option<PathBuf>,
    /// Where that life stands still.
    #[arg(long, hide = true)]
    halt: Option<Halt>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    match args.serve {
        Some(path) => service::serve(&Store::open(&path)?, args.holds, args.halt),
        None => {
            let path = env::temp_dir().join(format!("durable-holds-{}.redb", process::id()));
            let told = tell(&path, args.holds);
            fs::remove_file(&path)?;
            told
        }
    }
}

/// Some lives that are cut short, and one that is not.
fn tell(path: &Path, holds: u64) -> Result<()> {
    live(path, holds, None, |progress| progress.placed >= holds / 3)?;
    check(path, "killed while holds are placed")?;
    for _ in 0..3 {
        live(path, holds, None, |progress| progress.released >= holds / 20)?;
        check(path, "killed while holds are released")?;
    }
    for (halt, when) in [
        (Halt::BeforeCommit, "killed when a transaction had released holds, before it was committed"),
        (Halt::AfterCommit, "killed right after such a commit"),
    ] {
        if live(path, holds, Some(halt), |_| false)? {
            return Err("a life that stands still should have been killed".into());
        }
        check(path, when)?;
    }
    if !live(path, holds, None, |_| false)? {
        return Err("the last life should have come to its end".into());
    }
    let account = check(path, "ended by itself")?;
    if account.ended() != holds {
        return Err(format!("{} of {holds} holds have ended", account.ended()).into());
    }
    println!("every hold has ended, once; none was released early, and the stock is exact");
    Ok(())
}

/// One life of the service, in a process of its own. It is killed when it is `time`, or where it stands still. Returns
/// whether it was not.
fn live(path: &Path, holds: u64, halt: Option<Halt>, time: impl Fn(Progress) -> bool) -> Result<bool> {
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
        Timer::global().schedule(PATIENCE, move || kill(&child))?.cancel_on_drop()
    };
    let mut progress = Progress::default();
    for line in lines {
        let line = line?;
        if line == Halt::LINE {
            kill(&child);
            break;
        }
        progress = line.parse()?;
        if time(progress) {
            // Somewhere in one of the next transactions.
            thread::sleep(Duration::from_micros(fastrand::u64(..200_000)));
            kill(&child);
            break;
        }
    }
    let status = child.lock().map_err(|_| "poisoned")?.wait()?;
    drop(watchdog);
    println!("a life: {progress}");
    thread::sleep(DOWN);
    Ok(status.success())
}

/// With SIGKILL, where there is one. What has ended already stays as it is.
fn kill(child: &Mutex<Child>) {
    if let Ok(mut child) = child.lock() {
        let _ = child.kill();
    }
}

/// What is in the store must be consistent at any time.
fn check(path: &Path, when: &str) -> Result<Account> {
    let account = Store::open(path)?.account()?;
    println!("{when}: {account}");
    account.check()?;
    Ok(account)
}
