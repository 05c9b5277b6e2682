//! Every contender at every workload, side by side.
//!
//! ```text
//! cargo bench -p benches --bench compare                                   all of it, about an hour: the report
//! cargo bench -p benches --bench compare -- --quick                        about a minute
//! cargo bench -p benches --bench compare -- --workload w1,w4 --contender corewheel,heap
//! cargo bench -p benches --bench compare -- --workload w1 --case "1 thread, 10^6 standing"
//! cargo bench -p benches --bench compare -- renew                          tables and pages of what is recorded
//! cargo bench -p benches --bench compare -- renew --check                  whether the tables are of what is recorded
//! ```
//!
//! Each measurement is made in a process of its own, and the contenders take turns. A run of some workloads, cases or
//! contenders renews only their lines in `docs/benchmarks/results.tsv`.
//!
//! | file       | concern                                                    |
//! |------------|------------------------------------------------------------|
//! | `args`     | the command line                                           |
//! | `entrant`  | who takes part in what                                     |
//! | `workload` | what is done and measured                                  |
//! | `extra`    | contenders for one workload only                           |
//! | `target`   | what timers wake, and how late that was                    |
//! | `system`   | memory, processor time, context switches                   |
//! | `case`     | one measurement, to be made                                |
//! | `measured` | the figures of one measurement                             |
//! | `child`    | one measurement in a process of its own                    |
//! | `results`  | all measurements, in turns                                 |
//! | `kept`     | what is kept of all runs, and written                      |
//! | `figures`  | the recorded figures, and the pages that quote them        |
//! | `report`   | the tables                                                 |
//! | `plot`     | the plots                                                  |

mod args;
mod case;
mod child;
#[path = "../contender/mod.rs"]
mod contender;
mod entrant;
mod extra;
#[path = "../figures/mod.rs"]
mod figures;
#[path = "../harness/mod.rs"]
mod harness;
mod kept;
mod measured;
mod plot;
#[path = "../queue/mod.rs"]
mod queue;
mod report;
mod results;
mod system;
mod target;
mod workload;

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

use args::{Args, Task};
use kept::Kept;
use results::Results;

fn main() -> ExitCode {
    let args = Args::parse();
    let done = match &args.task {
        Some(Task::Check { contender }) => child::check(contender),
        Some(Task::Measure(cell)) => child::measure(cell),
        Some(Task::Renew { check }) => renew(&args, *check),
        None => compare(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn compare(args: &Args) -> Result<(), Box<dyn Error>> {
    let (entrants, scale, directory) = (args.entrants()?, args.scale(), args.directory());
    let results = Results::measure(&entrants, &args.workloads(), args.cases(), scale, args.repetitions());
    let mut now = Kept::default();
    now.renew(&results, scale, Path::new("."));
    println!("{}", report::markdown(&now.record));
    if let Some(directory) = directory {
        let mut kept = Kept::load(&directory)?;
        kept.renew(&results, scale, &directory);
        kept.write(scale, &directory)?;
    }
    Ok(())
}

/// Writes again what follows from the record, or only checks the tables.
fn renew(args: &Args, check: bool) -> Result<(), Box<dyn Error>> {
    let directory = args.directory().ok_or("it is not told where to write")?;
    let kept = Kept::load(&directory)?;
    if check { kept.check(&directory) } else { kept.write(args.scale(), &directory) }
}
