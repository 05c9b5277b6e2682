//! Stock holds past one machine: an order service of several processes on one PostgreSQL. The database keeps every
//! deadline; each worker claims those of the near horizon, and corewheel fires them by the clock of the database. The
//! run kills workers, connections and the database. In the end every hold has ended exactly once.
//!
//! ```text
//! cargo run --release -p cluster_holds
//! ```
//!
//! | file        | contents                                                                          |
//! |-------------|-----------------------------------------------------------------------------------|
//! | `run`       | the run: a cluster, bad input, a fence, late statements, two phases               |
//! | `phase`     | one phase: places holds, waits for their ends, checks them                        |
//! | `verdict`   | what a phase must have shown                                                      |
//! | `cluster`   | a PostgreSQL cluster in a temporary directory                                     |
//! | `capacity`  | how many connections a run needs                                                  |
//! | `children`  | the processes of the workers and shops                                            |
//! | `counts`    | what a process counts                                                             |
//! | `chaos`     | the faults, and when they strike                                                  |
//! | `bad_input` | bad input, each with the end that it must have                                    |
//! | `fence`     | a paused worker's write to a store outside the database                           |
//! | `revocation`| releases beside statements that end their lease                                   |
//! | `in_flight` | statements that take effect after their sender has gone on                         |
//! | `ledger`    | what the shops were told, compared with the database                              |
//! | `audit`     | what must be true in the end, and how late the releases were                      |
//! | `load`      | the load of the database                                                          |
//! | `database`  | connections that are made anew, and errors that last                              |
//! | `schema`    | the tables, and their version                                                     |
//! | `shop`      | places holds and pays for some                                                    |
//! | `worker`    | one worker: its threads, and its lease and claims over time                       |
//! | `lease`     | the statements of a lease                                                         |
//! | `claim`     | the statements that claim holds                                                   |
//! | `clock`     | the clock of the database, as an interval of the local one                        |
//! | `armed`     | the claimed holds, each with its timer                                            |
//! | `release`   | ends holds that are due                                                           |
//! | `store`     | a store outside the database, with a fence                                        |
//! | `listen`    | wakes the keeper for holds that are nearer than the horizon                       |
//! | `poll`      | the same service without timers, for comparison                                   |
//!
//! The README has the figures.

#[macro_use]
#[path = "../../output.rs"]
mod output;

mod armed;
mod audit;
mod bad_input;
mod capacity;
mod chaos;
mod children;
mod claim;
mod clock;
mod cluster;
mod counts;
mod database;
mod fence;
mod in_flight;
mod lease;
mod ledger;
mod listen;
mod load;
mod phase;
mod poll;
mod release;
mod revocation;
mod run;
mod schema;
mod shop;
mod store;
mod verdict;
mod worker;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use database::Chain;

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

/// Runs an order service of several processes on one PostgreSQL, and kills parts of it.
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Args {
    #[command(flatten)]
    run: run::Settings,
    #[command(subcommand)]
    role: Option<Role>,
}

/// The processes that the run starts. Each needs `DATABASE_URL`.
#[derive(Subcommand)]
enum Role {
    /// Claims holds and releases them at their deadlines.
    Worker(worker::Settings),
    /// Places holds and pays for some.
    Shop(shop::Settings),
    /// Ends the temporary server of a run that was killed.
    #[command(hide = true)]
    Reaper { directory: PathBuf },
}

fn main() -> ExitCode {
    let args = Args::parse();
    let is_child = args.role.is_some();
    let result = match args.role {
        None => run::run(&args.run),
        Some(Role::Worker(settings)) => worker::work(&settings),
        Some(Role::Shop(settings)) => shop::sell(&settings),
        Some(Role::Reaper { directory }) => cluster::reap(&directory),
    };
    if is_child {
        counts::print_counts();
    }
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", Chain(&*error));
            ExitCode::FAILURE
        }
    }
}
