//! The table.

use std::cmp::Reverse;
use std::error::Error;
use std::fs;
use std::path::Path;

use crate::contender::Contender;
use crate::workload::Measured;

/// What one timer takes for one operation.
pub struct Row {
    pub operation: &'static str,
    pub contender: Contender,
    /// By the number of threads.
    pub figures: Vec<Measured>,
}

impl Measured {
    /// Transfers per operation: to callers, and to the timer's own threads.
    pub fn parts(&self) -> [f64; 2] {
        [self.count.callers, self.count.others].map(|transfers| transfers as f64 / self.operations as f64)
    }

    /// Transfers per operation.
    pub fn total(&self) -> f64 {
        self.parts().iter().sum()
    }
}

/// The rows of one timer under one workload, of what was measured with each number of threads.
pub fn rows(contender: Contender, measured: impl Iterator<Item = Vec<Measured>>) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for measured in measured {
        for (number, figure) in measured.into_iter().enumerate() {
            if number == rows.len() {
                rows.push(Row { operation: figure.name, contender, figures: Vec::new() });
            }
            rows[number].figures.push(figure);
        }
    }
    rows
}

/// Transfers per operation: to callers, and to the timer's own threads.
pub fn table(threads: &[usize], rows: &[Row]) -> String {
    let mut operations: Vec<_> = rows.iter().map(|row| row.operation).collect();
    // In the order in which they come first.
    operations.sort_by_key(|operation| rows.iter().position(|row| row.operation == *operation));
    operations.dedup();
    let heads: Vec<_> = threads.iter().map(|&threads| name(threads)).collect();
    let mut table = format!("| | | {} |\n|---|---|{}\n", heads.join(" | "), "---|".repeat(heads.len()));
    for operation in operations {
        for row in rows.iter().filter(|row| row.operation == operation) {
            let cells = row.figures.iter().map(|figure| {
                let [callers, others] = figure.parts();
                format!("{callers:.2} + {others:.2}")
            });
            let cells: Vec<_> = cells.collect();
            table += &format!("| {operation} | {} | {} |\n", row.contender.name(), cells.join(" | "));
        }
    }
    table
}

fn name(threads: usize) -> String {
    if threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") }
}

/// Replaces the table in a page.
pub fn write(table: &str, page: &Path) -> Result<(), Box<dyn Error>> {
    const BEGIN: &str = "<!-- transfers: begin -->\n";
    const END: &str = "<!-- transfers: end -->";
    let text = fs::read_to_string(page)?;
    let (before, rest) = text.split_once(BEGIN).ok_or("the page does not say where the table begins")?;
    let (_, after) = rest.split_once(END).ok_or("the page does not say where the table ends")?;
    fs::write(page, format!("{before}{BEGIN}{table}{END}{after}"))?;
    Ok(())
}

/// Prints the places in the source that cause most transfers, so many for each figure.
pub fn print_places(threads: &[usize], rows: &[Row], most: usize) {
    let figures = rows
        .iter()
        .flat_map(|row| threads.iter().zip(&row.figures).map(move |(threads, figure)| (row, threads, figure)));
    for (row, &threads, Measured { count, operations, .. }) in figures.filter(|_| most > 0) {
        let each = |count: u64| count as f64 / *operations as f64;
        let accesses = each(count.accesses);
        println!("\n{}, {}, {}: {accesses:.1} accesses", row.operation, row.contender.name(), name(threads));
        let mut places: Vec<_> = count.places.iter().collect();
        places.sort_by_key(|(_, transfers)| Reverse(**transfers));
        for ((file, line), transfers) in places.into_iter().take(most) {
            let file = file.rsplit("../").next().unwrap_or(file);
            println!("  {:8.3} {file}:{line}", each(*transfers));
        }
    }
}
