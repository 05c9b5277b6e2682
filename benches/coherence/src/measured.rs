//! The result of a count, as text between two processes.

use coherence::count::Count;

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

    /// Prints the counts in the format of [`parse`](Self::parse).
    pub fn print(&self) {
        let Self { name, transfers: [callers, others], accesses, operations, locations } = self;
        print!("{name}\t{callers}\t{others}\t{accesses}\t{operations}");
        locations.iter().for_each(|(location, transfers)| print!("\t{location}\t{transfers}"));
        println!();
    }

    /// Returns the counts that a child process has printed.
    pub fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split('\t');
        let name = fields.next()?.to_owned();
        let mut number = || fields.next()?.parse().ok();
        let transfers = [number()?, number()?];
        let accesses = number()?;
        let operations = number()?;
        let mut locations = Vec::new();
        while let Some(location) = fields.next() {
            locations.push((location.to_owned(), fields.next()?.parse().ok()?));
        }
        Some(Self { name, transfers, accesses, operations, locations })
    }
}
