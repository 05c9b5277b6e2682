//! The command line.

use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand};

use crate::child::Cell;
use crate::listed::{self, ListedContender};
use crate::workload::{Scale, Workload};

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const DIRECTORY: &str = "docs/benchmarks";
const REPETITIONS: usize = 3;

/// Compares timers with one another.
#[derive(Parser)]
#[command(name = "cargo bench -p benches --bench compare --")]
pub struct Args {
    /// Measure only these workloads
    #[arg(long, value_enum, value_delimiter = ',')]
    workload: Vec<Workload>,
    /// Measure only the cases of this name; can be given several times
    #[arg(long)]
    case: Vec<String>,
    /// Measure only these contenders
    #[arg(long, value_delimiter = ',')]
    contender: Vec<String>,
    /// Number of repetitions of each measurement [default: 3, or 1 if quick]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    repetitions: Option<u16>,
    /// Measure small workloads, as a test; write nothing without --output
    #[arg(long)]
    quick: bool,
    /// Directory for the results, the tables and the plots [default: docs/benchmarks]
    #[arg(long, conflicts_with = "no_write")]
    output: Option<PathBuf>,
    /// Write nothing
    #[arg(long)]
    no_write: bool,
    /// `cargo bench` passes this, `cargo test` does not
    #[arg(long, hide = true, global = true)]
    bench: bool,
    #[command(subcommand)]
    pub task: Option<Task>,
}

/// A task other than a comparison.
#[derive(Subcommand)]
pub enum Task {
    /// Writes the tables and the plots from the recorded results; measures nothing
    Renew {
        /// Write nothing; fail if the tables differ from the recorded results
        #[arg(long)]
        check: bool,
    },
    #[command(hide = true)]
    Check { contender: String },
    #[command(hide = true)]
    Measure(Cell),
}

impl Args {
    pub fn contenders(&self) -> Result<Vec<ListedContender>, String> {
        let mut contenders = listed::all();
        if let Some(unknown) =
            self.contender.iter().find(|name| contenders.iter().all(|contender| contender.name != **name))
        {
            let names: Vec<_> = contenders.iter().map(|contender| contender.name).collect();
            return Err(format!("there is no contender {unknown}; there are {}", names.join(", ")));
        }
        if !self.contender.is_empty() {
            contenders.retain(|contender| self.contender.iter().any(|name| name == contender.name));
        }
        Ok(contenders)
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

    /// Returns the directory for the results; `None` to write nothing.
    pub fn directory(&self) -> Option<PathBuf> {
        let is_for_the_record = !self.no_write && !self.is_quick();
        let directory = self.output.clone().or(is_for_the_record.then(|| DIRECTORY.into()))?;
        // Cargo starts benchmarks in `benches`.
        Some(Path::new(REPOSITORY).join(directory))
    }

    /// `cargo test` only checks that the benchmark works.
    fn is_quick(&self) -> bool {
        self.quick || !self.bench
    }
}
