//! The command line.

use std::env;
use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::child::Cell;
use crate::entrant::{self, Entrant};
use crate::workload::{Scale, Workload};

const DIRECTORY: &str = "docs/benchmarks";
const REPETITIONS: usize = 3;

/// Compares timers with one another.
#[derive(Parser)]
#[command(name = "cargo bench --bench compare --")]
pub struct Args {
    /// Only these workloads
    #[arg(long, value_enum, value_delimiter = ',')]
    workload: Vec<Workload>,
    /// Only these contenders
    #[arg(long, value_delimiter = ',')]
    contender: Vec<String>,
    /// How often each measurement is made [default: 3, or 1 if quick]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    repetitions: Option<u16>,
    /// Less of everything: to see that it works; writes nothing unless told where
    #[arg(long)]
    quick: bool,
    /// Where the report and the plots are written [default: docs/benchmarks]
    #[arg(long, conflicts_with = "no_write")]
    output: Option<PathBuf>,
    /// Write nothing
    #[arg(long)]
    no_write: bool,
    /// Given by cargo, unless it tests
    #[arg(long, hide = true, global = true)]
    bench: bool,
    #[command(subcommand)]
    pub task: Option<Task>,
}

/// What a process of its own is for.
#[derive(Subcommand)]
pub enum Task {
    #[command(hide = true)]
    Check { contender: String },
    #[command(hide = true)]
    Measure(Cell),
}

impl Args {
    pub fn entrants(&self) -> Result<Vec<Entrant>, String> {
        let mut entrants = entrant::all();
        if let Some(unknown) = self.contender.iter().find(|name| entrants.iter().all(|entrant| entrant.name != **name))
        {
            let names: Vec<_> = entrants.iter().map(|entrant| entrant.name).collect();
            return Err(format!("there is no contender {unknown}; there are {}", names.join(", ")));
        }
        if !self.contender.is_empty() {
            entrants.retain(|entrant| self.contender.iter().any(|name| name == entrant.name));
        }
        Ok(entrants)
    }

    pub fn workloads(&self) -> Vec<Workload> {
        let is_wanted = |workload: &Workload| self.workload.is_empty() || self.workload.contains(workload);
        Workload::ALL.into_iter().filter(is_wanted).collect()
    }

    pub fn scale(&self) -> Scale {
        Scale { quick: self.is_quick() }
    }

    pub fn repetitions(&self) -> usize {
        self.repetitions.map_or(self.scale().pick(REPETITIONS, 1), usize::from)
    }

    /// Where to write, if at all.
    pub fn directory(&self) -> Option<PathBuf> {
        let is_for_the_record = !self.no_write && !self.is_quick();
        self.output.clone().or(is_for_the_record.then(|| DIRECTORY.into()))
    }

    /// The command that gives the same again.
    pub fn command(&self) -> String {
        let arguments = env::args().skip(1).filter(|argument| argument != "--bench");
        ["cargo bench --bench compare --".to_owned()].into_iter().chain(arguments).collect::<Vec<_>>().join(" ")
    }

    /// As a test, it only has to be seen that it works.
    fn is_quick(&self) -> bool {
        self.quick || !self.bench
    }
}
