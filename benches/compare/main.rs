//! Every contender at every workload, side by side.
//!
//! ```text
//! cargo bench --bench compare                                              all of it, about an hour: the report
//! cargo bench --bench compare -- --quick                                   about a minute
//! cargo bench --bench compare -- --workload w1,w4 --contender corewheel,heap
//! ```
//!
//! Each measurement is made in a process of its own, and the contenders take turns.
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
//! | `report`   | the tables                                                 |
//! | `plot`     | the plots                                                  |

mod args;
mod case;
mod child;
#[path = "../contender/mod.rs"]
mod contender;
mod entrant;
mod extra;
#[path = "../harness/mod.rs"]
mod harness;
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
use std::fs;
use std::process::ExitCode;

use clap::Parser;

use args::{Args, Task};
use results::Results;

fn main() -> ExitCode {
    let args = Args::parse();
    let done = match &args.task {
        Some(Task::Check { contender }) => child::check(contender),
        Some(Task::Measure(cell)) => child::measure(cell),
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
    let entrants = args.entrants()?;
    let results = Results::measure(&entrants, &args.workloads(), args.scale(), args.repetitions());
    let report = report::markdown(&results, &args.command());
    println!("{report}");
    if let Some(directory) = args.directory() {
        fs::create_dir_all(&directory)?;
        fs::write(directory.join("compare.md"), report)?;
        plot::all(&results, &directory)?;
    }
    Ok(())
}
