//! The table.

use std::collections::BTreeMap;

use crate::contender::Contender;
use crate::workload::{Measured, Workload};

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
pub fn rows(_: Workload, contender: Contender, measured: impl Iterator<Item = Vec<Measured>>) -> Vec<Row> {
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

/// Prints transfers per operation, `to callers + to the timer's threads`, and the `places` in the source that cause most.
pub fn print(threads: &[usize], rows: &[Row], places: usize) {
    let threads = threads.iter().map(|threads| match threads {
        1 => "1 thread".to_owned(),
        _ => format!("{threads} threads"),
    });
    let threads: Vec<_> = threads.collect();
    let mut operations: Vec<_> = rows.iter().map(|row| row.operation).collect();
    operations.sort_unstable();
    operations.dedup();
    println!("| operation | timer | {} |", threads.join(" | "));
    println!("|---|---|{}", "---|".repeat(threads.len()));
    for operation in operations {
        for row in rows.iter().filter(|row| row.operation == operation) {
            let cells = row.figures.iter().map(|figure| {
                let [callers, others] = figure.parts();
                format!("{callers:.2} + {others:.2}")
            });
            let cells: Vec<_> = cells.collect();
            println!("| {operation} | {} | {} |", row.contender.name(), cells.join(" | "));
        }
    }
    if places > 0 {
        rows.iter().for_each(|row| print_places(&threads, row, places));
    }
}

fn print_places(threads: &[String], row: &Row, most: usize) {
    for (threads, figure) in threads.iter().zip(&row.figures) {
        println!("\n{}, {}, {threads}: accesses an operation {:.1}", row.operation, row.contender.name(), {
            figure.count.accesses as f64 / figure.operations as f64
        });
        let mut places: Vec<_> = figure.count.places.iter().collect::<BTreeMap<_, _>>().into_iter().collect();
        places.sort_by_key(|(_, transfers)| std::cmp::Reverse(**transfers));
        for ((file, line), transfers) in places.into_iter().take(most) {
            let file = file.rsplit("../").next().unwrap_or(file);
            println!("  {:8.3} {file}:{line}", *transfers as f64 / figure.operations as f64);
        }
    }
}
