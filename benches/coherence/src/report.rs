//! The table.

use std::cmp::Reverse;
use std::error::Error;
use std::fs;
use std::path::Path;

use crate::contender::Contender;
use crate::measured::Measured;

/// The figures of one timer for one operation.
pub struct Row {
    pub operation: String,
    pub contender: Contender,
    /// One for each number of threads.
    pub figures: Vec<Measured>,
}

impl Row {
    fn figures_with_threads<'a>(
        &'a self,
        threads: &'a [usize],
    ) -> impl Iterator<Item = (&'a Self, usize, &'a Measured)> {
        threads.iter().zip(&self.figures).map(move |(&threads, figure)| (self, threads, figure))
    }
}

/// Returns the rows of one timer in one workload. `measured` has the results for each number of threads.
pub fn rows(contender: Contender, measured: Vec<Vec<Measured>>) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for (number, figure) in measured.into_iter().flat_map(|measured| measured.into_iter().enumerate()) {
        if number == rows.len() {
            rows.push(Row { operation: figure.name.clone(), contender, figures: Vec::new() });
        }
        rows[number].figures.push(figure);
    }
    rows
}

/// Returns the table of transfers per operation: to callers, and to the timer's own threads.
pub fn table(threads: &[usize], rows: &[Row]) -> String {
    let mut operations: Vec<_> = rows.iter().map(|row| &*row.operation).collect();
    // In the order of their first occurrence.
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
    let (before, rest) = text.split_once(BEGIN).ok_or("the page has no mark where the table begins")?;
    let (_, after) = rest.split_once(END).ok_or("the page has no mark where the table ends")?;
    fs::write(page, format!("{before}{BEGIN}{table}{END}{after}"))?;
    Ok(())
}

/// Prints the source lines that cause most transfers, at most `most` for each figure.
pub fn print_locations(threads: &[usize], rows: &[Row], most: usize) {
    let figures = |row| Row::figures_with_threads(row, threads);
    for (row, threads, figure) in rows.iter().filter(|_| most > 0).flat_map(figures) {
        let each = |count: u64| count as f64 / figure.operations as f64;
        let accesses = each(figure.accesses);
        println!("\n{}, {}, {}: {accesses:.1} accesses", row.operation, row.contender.name(), name(threads));
        let mut locations: Vec<_> = figure.locations.iter().collect();
        locations.sort_by_key(|(_, transfers)| Reverse(*transfers));
        for (location, transfers) in locations.into_iter().take(most) {
            println!("  {:8.3} {location}", each(*transfers));
        }
    }
}
