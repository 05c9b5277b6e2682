//! The tables.

use std::fmt::Write;

use crate::record::{Line, Median, Record, number};
use crate::saved::run_of;
use crate::workload::Workload;

const CONTENDERS: &str = include_str!("contenders.md");

pub fn markdown(record: &Record) -> String {
    let mut text = String::from(
        "# Beside other timers\n\n\
         Generated from [results.tsv](results.tsv); [the summary](README.md) is shorter.\n\n\
         ```sh\ncargo bench -p benches --bench compare\n```\n\n\
         Each cell has the median, in brackets the least and the most, then the ratio to the first row. Each \
         measurement runs in a process of its own, and the contenders take turns. Costs are wall time x min(threads, \
         cores) / operations. Settled figures include the work that the timer's threads do afterwards. A contender \
         that failed has no figures. Read the ratios: the absolute figures are those of one machine and one hour. \
         Compare rows of different days with care. The commit is the last that changed the measured source.\n\n",
    );
    for (run, machine) in &record.machines {
        _ = writeln!(text, "- {run}: {machine}");
    }
    _ = write!(text, "\n{CONTENDERS}");
    for workload in Workload::ALL {
        let name = workload.name();
        let lines: Vec<_> = record.lines.iter().filter(|line| line.workload == name).collect();
        if !lines.is_empty() {
            write_workload(&mut text, workload, &lines);
        }
    }
    text
}

fn write_workload(text: &mut String, workload: Workload, lines: &[&Line]) {
    let (title, description, target) = (workload.title(), workload.description(), workload.target());
    _ = write!(text, "\n## {title}\n\n{description}\n\nTarget: {target}.\n");
    if let Some(plot) = workload.plot() {
        _ = write!(text, "\n![{}]({}.svg)\n", plot.title, plot.file);
    }
    for case in distinct(lines.iter().map(|line| line.case.as_str())) {
        let lines: Vec<_> = lines.iter().copied().filter(|line| line.case == case).collect();
        write_case(text, case, &lines);
    }
}

fn write_case(text: &mut String, case: &str, lines: &[&Line]) {
    let contenders = distinct(lines.iter().map(|line| line.contender.as_str()));
    let figures = distinct(lines.iter().filter(|line| line.median.is_some()).map(|line| line.figure.as_str()));
    let line = |contender: &str, figure: &str| {
        lines.iter().find(|line| line.contender == contender && line.figure == figure).and_then(|line| line.median)
    };
    _ = write!(text, "\n### {case}\n\n| |");
    figures.iter().for_each(|figure| _ = write!(text, " {figure} |"));
    _ = write!(text, " measured |\n|---|{}---|\n", "---:|".repeat(figures.len()));
    for &contender in &contenders {
        _ = write!(text, "| {contender} |");
        let its = || lines.iter().filter(move |line| line.contender == contender);
        if let Some(failed) = its().find(|line| line.median.is_none()) {
            _ = write!(text, " {}{}", failed.figure.replace('|', "/"), " |".repeat(figures.len().max(1)));
        } else {
            for figure in &figures {
                let reference = contenders.first().filter(|first| **first != contender);
                let reference = reference.and_then(|first| line(first, figure));
                _ = write!(text, " {} |", cell(line(contender, figure), reference));
            }
        }
        _ = writeln!(text, " {} |", its().next().map(|line| run_of(line)).unwrap_or_default());
    }
}

/// Returns each value once, in the order of its first occurrence.
fn distinct<'a>(values: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut distinct = Vec::new();
    for value in values {
        if !distinct.contains(&value) {
            distinct.push(value);
        }
    }
    distinct
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
