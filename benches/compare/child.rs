//! One measurement in a process of its own, so that its memory and threads do not affect the next.

use std::env;
use std::error::Error;
use std::io;
use std::panic;
use std::process::{self, Command};
use std::thread;
use std::time::Duration;

use crate::listed;
use crate::measured::Measured;
use crate::workload::{Scale, Workload};

/// Maximum time of a measurement.
const LIMIT: Duration = Duration::from_secs(300);
const FAILED: i32 = 101;

/// The workload, the case and the contender of a measurement.
#[derive(Clone, clap::Args)]
pub struct Cell {
    #[arg(long, value_enum)]
    pub workload: Workload,
    #[arg(long)]
    pub case: String,
    #[arg(long)]
    pub contender: String,
    #[arg(long)]
    pub quick: bool,
}

/// Checks that a contender does what the benchmark measures. Panics if it does not.
pub fn check(name: &str) -> Result<(), Box<dyn Error>> {
    fail_fast();
    let contender = listed::all().into_iter().find(|contender| contender.name == name);
    (contender.ok_or("no such contender")?.check)();
    Ok(())
}

/// Makes the measurement, and prints its figures as JSON.
pub fn measure(cell: &Cell) -> Result<(), Box<dyn Error>> {
    fail_fast();
    let contenders = listed::all().into_iter().filter(|contender| contender.name == cell.contender);
    let mut cases = contenders.flat_map(|contender| contender.cases(cell.workload, Scale { quick: cell.quick }));
    let case = cases.find(|case| case.name == cell.case).ok_or("the contender has no such case")?;
    serde_json::to_writer(io::stdout(), &(case.run)())?;
    Ok(())
}

/// Ends the process when a thread panics, because the others would wait for it, or when the measurement takes too long.
fn fail_fast() {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        hook(panic);
        process::exit(FAILED);
    }));
    thread::spawn(|| {
        thread::sleep(LIMIT);
        panic!("not done in {LIMIT:?}");
    });
}

pub fn run_check(contender: &str) -> Result<(), String> {
    run(Command::new(this()?).args(["check", contender])).map(drop)
}

pub fn run_measure(cell: &Cell) -> Result<Measured, String> {
    let workload = cell.workload.name();
    let mut command = Command::new(this()?);
    command.args(["measure", "--workload", &workload, "--case", &cell.case, "--contender", &cell.contender]);
    if cell.quick {
        command.arg("--quick");
    }
    serde_json::from_slice(&run(&mut command)?).map_err(|error| error.to_string())
}

fn this() -> Result<std::path::PathBuf, String> {
    env::current_exe().map_err(|error| error.to_string())
}

/// Runs the process. Returns its output, or an error with the reason of its failure.
fn run(command: &mut Command) -> Result<Vec<u8>, String> {
    let output = command.output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    // The first line of a panic has the location, the second the reason.
    let why = errors.lines().filter(|line| !line.trim().is_empty()).take(2).last();
    Err(format!("{}: {}", output.status, why.unwrap_or("no message")))
}
