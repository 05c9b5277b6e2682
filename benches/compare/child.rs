//! One measurement in a process of its own: what one leaves behind is not there for the next.

use std::env;
use std::error::Error;
use std::io;
use std::panic;
use std::process::{self, Command};
use std::thread;
use std::time::Duration;

use crate::entrant;
use crate::measured::Measured;
use crate::workload::{Scale, Workload};

/// The longest that a measurement may take.
const LIMIT: Duration = Duration::from_secs(300);
const FAILED: i32 = 101;

/// What is measured.
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

/// Whether a contender does what is going to be measured.
pub fn check(contender: &str) -> Result<(), Box<dyn Error>> {
    fail_fast();
    let entrant = entrant::all().into_iter().find(|entrant| entrant.name == contender);
    (entrant.ok_or("no such contender")?.check)();
    Ok(())
}

/// Measures, and prints what came out.
pub fn measure(cell: &Cell) -> Result<(), Box<dyn Error>> {
    fail_fast();
    let entrants = entrant::all().into_iter().filter(|entrant| entrant.name == cell.contender);
    let mut cases = entrants.flat_map(|entrant| entrant.cases(cell.workload, Scale { quick: cell.quick }));
    let case = cases.find(|case| case.name == cell.case).ok_or("the contender has no such case")?;
    serde_json::to_writer(io::stdout(), &(case.run)())?;
    Ok(())
}

/// Ends the process when a thread panics, for the others would wait for it, and when it takes too long.
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

/// What the process has printed, or why it failed.
fn run(command: &mut Command) -> Result<Vec<u8>, String> {
    let output = command.output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    // The first line of a panic says where, the second why.
    let why = errors.lines().filter(|line| !line.trim().is_empty()).take(2).last();
    Err(format!("{}: {}", output.status, why.unwrap_or("it said nothing")))
}
