//! Measures every contender at every workload.
//!
//! ```text
//! cargo bench -p benches --bench compare                                   everything, more than an hour
//! cargo bench -p benches --bench compare -- --quick                        a minute or two
//! cargo bench -p benches --bench compare -- --workload w1,w4 --contender corewheel,heap
//! cargo bench -p benches --bench compare -- --workload w1 --case "1 thread, 10^6 standing"
//! cargo bench -p benches --bench compare -- renew                          write the tables from the record
//! cargo bench -p benches --bench compare -- renew --check                  fail if the tables differ from the record
//! ```
//!
//! Each measurement runs in a process of its own, and the contenders take turns. A run of some workloads, cases or
//! contenders replaces only their lines in `docs/benchmarks/results.tsv`.
//!
//! | file       | contents                                                   |
//! |------------|------------------------------------------------------------|
//! | `args`     | the command line                                           |
//! | `listed`   | the list of contenders, each with its workloads            |
//! | `workload` | the workloads                                              |
//! | `extra`    | contenders for some workloads only                         |
//! | `target`   | the objects that timers wake, and their lateness           |
//! | `system`   | memory, processor time, context switches                   |
//! | `memory`   | the growth of the resident memory                          |
//! | `case`     | one planned measurement                                    |
//! | `measured` | the figures of one measurement                             |
//! | `child`    | one measurement in a process of its own                    |
//! | `results`  | runs all measurements, in turns                            |
//! | `saved`    | the saved results of all runs                              |
//! | `record`   | the recorded figures, and a number as text                 |
//! | `report`   | the tables                                                 |
//! | `summary`  | the table in `docs/benchmarks/README.md`                   |
//! | `plot`     | the plots                                                  |
//! | `publish`  | writes the results, the tables, the summary and the plots  |

mod args;
mod case;
mod child;
#[path = "../contender/mod.rs"]
mod contender;
mod extra;
#[path = "../harness/mod.rs"]
mod harness;
mod listed;
mod measured;
mod memory;
mod plot;
mod publish;
#[path = "../queue/mod.rs"]
mod queue;
mod record;
mod report;
mod results;
mod saved;
mod summary;
mod system;
mod target;
mod workload;

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

use args::{Args, Task};
use results::Results;
use saved::SavedResults;

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
    let (contenders, scale, directory) = (args.contenders()?, args.scale(), args.directory());
    let results = Results::measure(&contenders, &args.workloads(), args.cases(), scale, args.repetitions());
    let mut now = SavedResults::default();
    now.renew(&results, scale, Path::new("."));
    println!("{}", report::markdown(&now.record));
    if let Some(directory) = directory {
        let mut saved = SavedResults::load(&directory)?;
        saved.renew(&results, scale, &directory);
        publish::write(&saved, scale, &directory)?;
    }
    Ok(())
}

/// Writes the tables and plots from the record, or only checks the tables.
fn renew(args: &Args, check: bool) -> Result<(), Box<dyn Error>> {
    let directory = args.directory().ok_or("no directory to write to")?;
    let saved = SavedResults::load(&directory)?;
    if check { publish::check(&saved, &directory) } else { publish::write(&saved, args.scale(), &directory) }
}
