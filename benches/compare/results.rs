//! Runs all measurements, in turns.

use indicatif::{ProgressBar, ProgressStyle};

use crate::child::{self, Cell};
use crate::listed::ListedContender;
use crate::measured::Measured;
use crate::record::Median;
use crate::workload::{Scale, Workload};

pub struct Results {
    pub workloads: Vec<(Workload, Vec<Rows>)>,
}

/// A case of a workload, measured for each contender.
pub struct Rows {
    pub case: String,
    pub x: Option<f64>,
    pub rows: Vec<Row>,
}

pub struct Row {
    pub contender: &'static str,
    /// Empty if one of the runs has failed.
    runs: Vec<Measured>,
    pub failure: Option<String>,
}

impl Results {
    /// Measures the cases with these names, or all cases if `cases` is empty.
    pub fn measure(
        contenders: &[ListedContender],
        workloads: &[Workload],
        cases: &[String],
        scale: Scale,
        repetitions: usize,
    ) -> Self {
        let wanted = |workload| {
            let mut planned = plan(contenders, workload, scale);
            planned.retain(|rows| cases.is_empty() || cases.contains(&rows.case));
            planned
        };
        let planned: Vec<_> = workloads.iter().map(|&workload| (workload, wanted(workload))).collect();
        let cells: usize = planned.iter().flat_map(|(_, cases)| cases).map(|case| case.rows.len()).sum();
        let bar = ProgressBar::new((contenders.len() + cells * repetitions) as u64);
        let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} {elapsed_precise} {msg}");
        bar.set_style(style.expect("the template is valid"));

        let mut results = Self { workloads: planned };
        for contender in contenders {
            bar.set_message(format!("check {}", contender.name));
            if let Err(failure) = child::run_check(contender.name) {
                results.rows_mut().filter(|row| row.contender == contender.name).for_each(|row| {
                    row.failure = Some(format!("the check of the contender, {failure}"));
                });
            }
            bar.inc(1);
        }
        for (workload, cases) in &mut results.workloads {
            for _ in 0..repetitions {
                for case in &mut *cases {
                    for row in &mut case.rows {
                        bar.set_message(format!("{}, {}, {}", workload.title(), case.case, row.contender));
                        row.run(*workload, &case.case, scale);
                        bar.inc(1);
                    }
                }
            }
        }
        bar.finish_and_clear();
        results
    }

    fn rows_mut(&mut self) -> impl Iterator<Item = &mut Row> {
        self.workloads.iter_mut().flat_map(|(_, cases)| cases).flat_map(|case| &mut case.rows)
    }
}

/// Returns the cases of a workload, each with its contenders.
pub fn plan(contenders: &[ListedContender], workload: Workload, scale: Scale) -> Vec<Rows> {
    let mut planned: Vec<Rows> = Vec::new();
    for contender in contenders {
        for case in contender.cases(workload, scale) {
            let row = Row { contender: contender.name, runs: Vec::new(), failure: None };
            match planned.iter_mut().find(|rows| rows.case == case.name) {
                Some(rows) => rows.rows.push(row),
                None => planned.push(Rows { case: case.name, x: case.x, rows: vec![row] }),
            }
        }
    }
    planned
}

impl Row {
    /// Measures once more, unless an earlier run has failed.
    fn run(&mut self, workload: Workload, case: &str, scale: Scale) {
        if self.failure.is_some() {
            return;
        }
        let cell = Cell { workload, case: case.to_owned(), contender: self.contender.to_owned(), quick: scale.quick };
        match child::run_measure(&cell) {
            Ok(measured) => self.runs.push(measured),
            Err(failure) => {
                self.failure = Some(failure);
                self.runs.clear();
            }
        }
    }

    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    /// Returns the names of the figures, the most important first.
    pub fn figures(&self) -> impl Iterator<Item = &str> {
        self.runs.first().into_iter().flat_map(|run| &run.figures).map(|(name, _)| name.as_str())
    }

    pub fn median(&self, figure: &str) -> Option<Median> {
        let value = |run: &Measured| run.figures.iter().find(|(name, _)| name == figure).map(|(_, value)| *value);
        let mut values: Vec<_> = self.runs.iter().filter_map(value).collect();
        values.sort_by(f64::total_cmp);
        let min = *values.first()?;
        let max = *values.last()?;
        Some(Median { value: values[values.len() / 2], min, max })
    }

    /// Returns the curve of the first run.
    pub fn curve(&self) -> &[(f64, f64)] {
        self.runs.first().map_or(&[], |run| &run.curve)
    }
}
