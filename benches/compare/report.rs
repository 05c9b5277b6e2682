//! The tables.

use std::fmt::Write;

use crate::results::{Median, Results, Row, Rows};
use crate::system;
use crate::workload::Workload;

const CONTENDERS: &str = include_str!("contenders.md");

pub fn markdown(results: &Results, command: &str) -> String {
    let mut text = format!(
        "# Beside other timers\n\n\
         Measured on {}: {}.\n\n\
         ```sh\n{command}\n```\n\n\
         Medians of {}, in brackets the least and the most, then how many times that of the first row. Each \
         measurement is made in a process of its own, and the contenders take turns. Costs are wall time x min(threads, cores) / \
         operations. Settled means: until the timer's threads, too, have done what they were given. A contender that \
         failed has no figures. Read the ratios: the absolute figures are those of one machine and one hour.\n\n\
         {CONTENDERS}",
        system::date(),
        system::machine(),
        results.repetitions,
    );
    for (workload, cases) in results.workloads.iter().filter(|(_, cases)| !cases.is_empty()) {
        write_workload(&mut text, *workload, cases);
    }
    text
}

fn write_workload(text: &mut String, workload: Workload, cases: &[Rows]) {
    let (title, description, target) = (workload.title(), workload.description(), workload.target());
    _ = write!(text, "\n## {title}\n\n{description}\n\nTarget: {target}.\n");
    if let Some(plot) = workload.plot() {
        _ = write!(text, "\n![{}]({}.svg)\n", plot.title, plot.file);
    }
    cases.iter().for_each(|case| write_case(text, case));
}

fn write_case(text: &mut String, case: &Rows) {
    let mut figures: Vec<&str> = Vec::new();
    for figure in case.rows.iter().flat_map(Row::figures) {
        if !figures.contains(&figure) {
            figures.push(figure);
        }
    }
    _ = write!(text, "\n### {}\n\n| |", case.case);
    figures.iter().for_each(|figure| _ = write!(text, " {figure} |"));
    _ = write!(text, "\n|---|{}\n", "---:|".repeat(figures.len()));
    for row in &case.rows {
        _ = write!(text, "| {} |", row.contender);
        if let Some(failure) = &row.failure {
            _ = writeln!(text, " failed: {}{}", failure.replace('|', "/"), " |".repeat(figures.len().max(1)));
            continue;
        }
        for figure in &figures {
            let reference = case.rows.first().filter(|first| first.contender != row.contender);
            let ratio = reference.and_then(|reference| reference.median(figure));
            _ = write!(text, " {} |", cell(row.median(figure), ratio));
        }
        text.push('\n');
    }
}

fn cell(median: Option<Median>, reference: Option<Median>) -> String {
    let Some(Median { value, min, max }) = median else {
        return "–".into();
    };
    let mut text = number(value);
    if min < max {
        _ = write!(text, " ({} – {})", number(min), number(max));
    }
    let comparable = reference.filter(|reference| reference.value != 0.0 && value != 0.0);
    if let Some(reference) = comparable {
        _ = write!(text, " **{}x**", number(value / reference.value));
    }
    text
}

/// Three digits, and as many more as a whole number has.
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
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
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
