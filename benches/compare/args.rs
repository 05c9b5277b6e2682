//! The command line.

use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand};

use crate::child::Cell;
use crate::entrant::{self, Entrant};
use crate::workload::{Scale, Workload};

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const DIRECTORY: &str = "docs/benchmarks";
const REPETITIONS: usize = 3;

/// Compares timers with one another.
#[derive(Parser)]
#[command(name = "cargo bench -p benches --bench compare --")]
pub struct Args {
    /// Only these workloads
    #[arg(long, value_enum, value_delimiter = ',')]
    workload: Vec<Workload>,
    /// Only the cases of these names; may be given several times
    #[arg(long)]
    case: Vec<String>,
    /// Only these contenders
    #[arg(long, value_delimiter = ',')]
    contender: Vec<String>,
    /// How often each measurement is made [default: 3, or 1 if quick]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    repetitions: Option<u16>,
    /// Less of everything: to see that it works; writes nothing unless told where
    #[arg(long)]
    quick: bool,
    /// Where the results, the tables and the plots are written [default: docs/benchmarks]
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

/// What is done instead of a comparison.
#[derive(Subcommand)]
pub enum Task {
    /// Measures nothing: writes the tables, the plots and the quoted figures from the recorded results
    Renew {
        /// Write nothing, and fail if the tables are not those of the recorded results
        #[arg(long)]
        check: bool,
    },
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

    pub fn cases(&self) -> &[String] {
        &self.case
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
        let directory = self.output.clone().or(is_for_the_record.then(|| DIRECTORY.into()))?;
        // Cargo starts benchmarks in `benches`.
        Some(Path::new(REPOSITORY).join(directory))
    }

    /// As a test, it only has to be seen that it works.
    fn is_quick(&self) -> bool {
        self.quick || !self.bench
    }
}
