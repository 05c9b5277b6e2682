//! The saved results of all runs: the figures, and the curves of the plots. A run replaces the results that it
//! measures.

use std::collections::HashMap;
use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::listed;
use crate::record::{Line, Median, Record};
use crate::results::{Results, Row, plan};
use crate::system;
use crate::workload::{Scale, Workload};

const RESULTS: &str = "results.tsv";
const CURVES: &str = "curves.tsv";

#[derive(Default)]
pub struct SavedResults {
    pub record: Record,
    curves: Vec<Curve>,
}

struct Curve {
    cell: Cell,
    points: Vec<(f64, f64)>,
}

/// The workload, the case and the contender.
type Cell = [String; 3];

impl SavedResults {
    /// Loads the results of earlier runs, if there are any.
    pub fn load(directory: &Path) -> Result<Self, Box<dyn Error>> {
        let record = Record::parse(&read(&directory.join(RESULTS))?)?;
        let curves = read(&directory.join(CURVES))?;
        let curves = curves.lines().map(|line| Curve::parse(line).ok_or_else(|| format!("{CURVES}: {line}")));
        Ok(Self { record, curves: curves.collect::<Result<_, _>>()? })
    }

    /// Replaces the results that the run has measured, and keeps the others.
    pub fn renew(&mut self, results: &Results, scale: Scale, directory: &Path) {
        let date = system::date();
        let commit = system::commit(directory);
        for (workload, cases) in &results.workloads {
            for (case, row) in cases.iter().flat_map(|case| case.rows.iter().map(move |row| (case, row))) {
                let cell = [workload.name(), case.case.clone(), row.contender.to_owned()];
                self.record.lines.retain(|line| cell_of(line) != cell);
                self.record.lines.extend(lines(&cell, row, &date, &commit));
                self.curves.retain(|curve| curve.cell != cell);
                let points = row.curve().to_vec();
                self.curves.extend((!points.is_empty()).then_some(Curve { cell, points }));
            }
        }
        self.sort(scale);
        let run = format!("{date} {commit}");
        self.record.machines.retain(|(of, _)| *of != run);
        self.record.machines.push((run, system::machine()));
        let lines = &self.record.lines;
        self.record.machines.retain(|(run, _)| lines.iter().any(|line| run_of(line) == *run));
        self.record.machines.sort();
    }

    /// Sorts by workload, then by case and contender as planned. Results that are not planned come last.
    fn sort(&mut self, scale: Scale) {
        let mut positions = HashMap::new();
        for workload in Workload::ALL {
            for case in plan(&listed::all(), workload, scale) {
                for row in case.rows {
                    let position = positions.len();
                    positions.insert([workload.name(), case.case.clone(), row.contender.to_owned()], position);
                }
            }
        }
        let position = |cell: &Cell| {
            let workload = Workload::ALL.iter().position(|workload| workload.name() == cell[0]);
            (workload, positions.get(cell).copied().unwrap_or(usize::MAX))
        };
        self.record.lines.sort_by_cached_key(|line| position(&cell_of(line)));
        self.curves.sort_by_cached_key(|curve| position(&curve.cell));
    }

    pub fn curve(&self, workload: &str, case: &str, contender: &str) -> Vec<(f64, f64)> {
        let curve = self.curves.iter().find(|curve| curve.cell == [workload, case, contender]);
        curve.map_or_else(Vec::new, |curve| curve.points.clone())
    }

    /// Returns the figures and the curves as text, each with the name of its file.
    pub fn files(&self) -> [(&'static str, String); 2] {
        [(RESULTS, self.record.to_string()), (CURVES, self.curves.iter().map(Curve::to_line).collect())]
    }
}

impl Curve {
    fn parse(line: &str) -> Option<Self> {
        let fields: Vec<_> = line.split('\t').collect();
        let &[workload, case, contender, points] = &fields[..] else { return None };
        let point = |point: &str| {
            let (x, y) = point.split_once(':')?;
            Some((x.parse().ok()?, y.parse().ok()?))
        };
        let points = points.split(' ').map(point).collect::<Option<_>>()?;
        Some(Self { cell: [workload, case, contender].map(str::to_owned), points })
    }

    fn to_line(&self) -> String {
        let mut line = self.cell.join("\t");
        for (position, (x, y)) in self.points.iter().enumerate() {
            _ = write!(line, "{}{}:{}", if position == 0 { '\t' } else { ' ' }, rounded(*x), rounded(*y));
        }
        line + "\n"
    }
}

/// Returns the text of a file; empty if the file does not exist.
pub fn read(path: &Path) -> Result<String, Box<dyn Error>> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        read => Ok(read?),
    }
}

/// Returns the date and the commit of a line, which identify the machine.
pub fn run_of(line: &Line) -> String {
    format!("{} {}", line.date, line.commit)
}

fn cell_of(line: &Line) -> Cell {
    [line.workload.clone(), line.case.clone(), line.contender.clone()]
}

fn lines(cell: &Cell, row: &Row, date: &str, commit: &str) -> Vec<Line> {
    let [workload, case, contender] = cell.clone();
    let line = |figure: &str, median: Option<Median>| Line {
        workload: workload.clone(),
        case: case.clone(),
        contender: contender.clone(),
        figure: figure.replace(['\t', '\n'], " "),
        median: median.map(|it| Median { value: rounded(it.value), min: rounded(it.min), max: rounded(it.max) }),
        runs: row.runs(),
        date: date.to_owned(),
        commit: commit.to_owned(),
    };
    match &row.failure {
        Some(failure) => vec![line(&format!("failed: {failure}"), None)],
        None => row.figures().map(|figure| line(figure, row.median(figure))).collect(),
    }
}

/// Rounds to four significant digits: more would only record noise.
fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().expect("a number")
}
