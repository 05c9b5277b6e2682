//! The recorded figures, and a number as text.

use std::fmt::{self, Display, Formatter};

const COLUMNS: &str = "workload\tcase\tcontender\tfigure\tmedian\tleast\tmost\truns\tdate\tcommit";
/// Replaces the values of a contender that failed.
const NO_VALUE: &str = "-";

/// The median of several values, and their range.
#[derive(Clone, Copy)]
pub struct Median {
    pub value: f64,
    pub min: f64,
    pub max: f64,
}

pub struct Line {
    pub workload: String,
    pub case: String,
    pub contender: String,
    /// The name of the figure, or `failed: ` and the reason.
    pub figure: String,
    /// None if the contender failed.
    pub median: Option<Median>,
    /// Number of measurements.
    pub runs: usize,
    pub date: String,
    /// The last commit that changed the measured source.
    pub commit: String,
}

#[derive(Default)]
pub struct Record {
    /// The machines, by date and commit.
    pub machines: Vec<(String, String)>,
    pub lines: Vec<Line>,
}

impl Record {
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut record = Self::default();
        for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| *line != COLUMNS) {
            record.add(line).ok_or_else(|| format!("line {number} is not a line of the record: {line}"))?;
        }
        Ok(record)
    }

    fn add(&mut self, line: &str) -> Option<()> {
        let fields: Vec<_> = line.split('\t').collect();
        match fields[..] {
            ["#", run, machine] => self.machines.push((run.into(), machine.into())),
            [workload, case, contender, figure, median, least, most, runs, date, commit] => {
                let value = |text: &str| text.parse::<f64>().ok();
                let median = match median {
                    NO_VALUE => None,
                    _ => Some(Median { value: value(median)?, min: value(least)?, max: value(most)? }),
                };
                self.lines.push(Line {
                    workload: workload.into(),
                    case: case.into(),
                    contender: contender.into(),
                    figure: figure.into(),
                    median,
                    runs: runs.parse().ok()?,
                    date: date.into(),
                    commit: commit.into(),
                });
            }
            _ => return None,
        }
        Some(())
    }

    pub fn line(&self, workload: &str, case: &str, contender: &str, figure: &str) -> Option<&Line> {
        let is_it = |line: &&Line| {
            line.workload == workload && line.case == case && line.contender == contender && line.figure == figure
        };
        self.lines.iter().find(is_it)
    }

    pub fn median(&self, workload: &str, case: &str, contender: &str, figure: &str) -> Option<Median> {
        self.line(workload, case, contender, figure)?.median
    }
}

impl Display for Record {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (run, machine) in &self.machines {
            writeln!(f, "#\t{run}\t{machine}")?;
        }
        writeln!(f, "{COLUMNS}")?;
        for line in &self.lines {
            write!(f, "{}\t{}\t{}\t{}\t", line.workload, line.case, line.contender, line.figure)?;
            match line.median {
                Some(Median { value, min, max }) => write!(f, "{value}\t{min}\t{max}")?,
                None => write!(f, "{NO_VALUE}\t{NO_VALUE}\t{NO_VALUE}")?,
            }
            writeln!(f, "\t{}\t{}\t{}", line.runs, line.date, line.commit)?;
        }
        Ok(())
    }
}

/// Formats a number with three significant digits, or all digits of the whole part if it has more.
pub fn number(value: f64) -> String {
    let magnitude = value.abs();
    let decimals = match magnitude {
        0.0 => 0,
        100.0.. => 0,
        _ => (2 - magnitude.log10().floor() as i32).clamp(0, 6) as usize,
    };
    let text = format!("{value:.decimals$}");
    let (whole, part) = text.split_once('.').map_or((text.as_str(), ""), |(whole, part)| (whole, part));
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |digits| ("-", digits));
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if part.is_empty() || magnitude.fract() == 0.0 {
        format!("{sign}{grouped}")
    } else {
        format!("{sign}{grouped}.{part}")
    }
}
