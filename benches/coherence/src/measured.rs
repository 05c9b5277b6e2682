//! The result of a count, and its transfer from the child process.
//!
//! Each count runs in a process of its own. So no other count affects its memory addresses, and the same count always
//! has the same result.

use std::error::Error;
use std::io::Read;
use std::process::{Child, Command, Stdio};

use clap::ValueEnum;
use coherence::count::Count;

use crate::contender::Contender;
use crate::workload::{Order, Workload};

/// The counts of one step of a workload.
pub struct Measured {
    /// Name of the operation.
    pub name: String,
    /// Transfers to callers, and to the timer's own threads.
    pub transfers: [u64; 2],
    pub accesses: u64,
    /// Number of operations of all threads together.
    pub operations: u64,
    /// Transfers by the source line of the access.
    pub locations: Vec<(String, u64)>,
}

/// A count that runs in a child process.
pub struct Running(Child);

impl Measured {
    pub fn new(name: &str, count: Count, operations: u64) -> Self {
        let location = |((file, line), transfers): ((&str, u32), u64)| {
            (format!("{}:{line}", file.rsplit("../").next().unwrap_or(file)), transfers)
        };
        let (transfers, locations) =
            ([count.callers, count.others], count.locations.into_iter().map(location).collect());
        Self { name: name.to_owned(), transfers, accesses: count.accesses, operations, locations }
    }

    /// Returns the transfers per operation to callers, and to the timer's own threads.
    pub fn parts(&self) -> [f64; 2] {
        self.transfers.map(|transfers| transfers as f64 / self.operations as f64)
    }

    /// Returns the transfers per operation to all threads.
    pub fn total(&self) -> f64 {
        self.parts().iter().sum()
    }

    /// Prints the counts in the format of [`Running::end`].
    pub fn print(&self) {
        let Self { name, transfers: [callers, others], accesses, operations, locations } = self;
        print!("{name}\t{callers}\t{others}\t{accesses}\t{operations}");
        locations.iter().for_each(|(location, transfers)| print!("\t{location}\t{transfers}"));
        println!();
    }

    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split('\t');
        let name = fields.next()?.to_owned();
        let mut number = || fields.next()?.parse().ok();
        let (transfers, accesses, operations) = ([number()?, number()?], number()?, number()?);
        let mut locations = Vec::new();
        while let Some(location) = fields.next() {
            locations.push((location.to_owned(), fields.next()?.parse().ok()?));
        }
        Some(Self { name, transfers, accesses, operations, locations })
    }
}

impl Running {
    pub fn start(
        contender: Contender,
        workload: Workload,
        threads: usize,
        order: Order,
    ) -> Result<Self, Box<dyn Error>> {
        let name = |value: Option<clap::builder::PossibleValue>| value.map(|value| value.get_name().to_owned());
        let child = Command::new(std::env::current_exe()?)
            .arg("--child")
            .args(["--workloads".to_owned(), name(workload.to_possible_value()).unwrap_or_default()])
            .args(["--contenders".to_owned(), name(contender.to_possible_value()).unwrap_or_default()])
            .args(["--threads".to_owned(), threads.to_string()])
            .args(["--seed".to_owned(), order.seed.to_string()])
            .args(["--turn".to_owned(), order.mean_turn.to_string()])
            .stdout(Stdio::piped())
            .spawn()?;
        Ok(Self(child))
    }

    /// Waits for the end of the count, and returns the results.
    pub fn end(mut self) -> Result<Vec<Measured>, Box<dyn Error>> {
        let mut text = String::new();
        if let Some(mut output) = self.0.stdout.take() {
            output.read_to_string(&mut text)?;
        }
        if !self.0.wait()?.success() {
            return Err("a count has failed".into());
        }
        let measured: Option<_> = text.lines().map(Measured::parse).collect();
        Ok(measured.ok_or("a count has printed an invalid line")?)
    }
}
