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
//! | `run`       | the run: a cluster, two phases, the verdict                                       |
//! | `cluster`   | a PostgreSQL cluster in a temporary directory                                     |
//! | `children`  | the processes of the workers and shops                                            |
//! | `chaos`     | the faults, and when they strike                                                  |
//! | `refusals`  | bad input, each with the end that it must have                                    |
//! | `audit`     | what must be true in the end, and how late the releases were                      |
//! | `load`      | what the database had to do                                                       |
//! | `database`  | connections that come back, and errors that do not go away                        |
//! | `schema`    | the tables, and their version                                                     |
//! | `shop`      | places holds and pays for some                                                    |
//! | `worker`    | one worker: its threads, and its lease and claims over time                       |
//! | `lease`     | the statements of a lease                                                         |
//! | `claim`     | the statements that claim holds                                                   |
//! | `clock`     | the clock of the database, as an interval of the local one                        |
//! | `armed`     | the claimed holds, each with its timer                                            |
//! | `release`   | ends holds that are due                                                           |
//! | `listen`    | learns of holds that are nearer than the horizon                                  |
//! | `poll`      | the same service without timers, for comparison                                   |
//!
//! `docs/durable.md` tells what was measured.

mod armed;
mod audit;
mod chaos;
mod children;
mod claim;
mod clock;
mod cluster;
mod database;
mod lease;
mod listen;
mod load;
mod poll;
mod refusals;
mod release;
mod run;
mod schema;
mod shop;
mod worker;

use std::error::Error;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
}

fn main() -> ExitCode {
    let args = Args::parse();
    let result = match args.role {
        None => run::run(&args.run),
        Some(Role::Worker(settings)) => worker::work(&settings),
        Some(Role::Shop(settings)) => shop::sell(&settings),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
