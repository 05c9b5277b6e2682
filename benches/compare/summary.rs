//! The summary: a row for each workload, with the best of the others and the textbook heap.

use crate::record::{Line, Record, number};

const BEGIN: &str = "<!-- summary: begin -->\n";
const END: &str = "<!-- summary: end -->";
/// Within this ratio, either way, two contenders are level.
const LEVEL: f64 = 1.05;
/// This crate's callbacks on the threads that drive, beside those in a pool.
const INLINE: &str = "corewheel-inline";
/// Futures of others, and those that are polled after each reset.
const FUTURES: &[&str] = &["tokio", "tokio-outside", "tokio-alternative", "async-io", "pingora"];
const POLLED: &[&str] = &["tokio-outside-polled", "tokio-alternative"];
/// Contenders that measure the benchmark, not a timer.
const NO_TIMERS: [&str; 2] = ["control", "none"];

/// What a row shows: of every figure, less is better.
struct Row {
    workload: &'static str,
    /// The contender of this crate.
    own: &'static str,
    what: &'static str,
    case: &'static str,
    figure: &'static str,
    /// The others; `None` for all.
    others: Option<&'static [&'static str]>,
}

const ROWS: [Row; 39] = [
    row("w1", "schedule and cancel, 1 thread, ns", "1 thread, 10^6 standing", "ns a pair"),
    row("w1", "schedule and cancel, 2 threads, ns", "2 threads, 10^6 standing", "ns a pair"),
    futures("w1", "a `Sleep` made, polled and dropped, 1 thread, ns", "1 thread, 10^6 standing", "ns a pair"),
    futures("w1", "the same, 2 threads, ns", "2 threads, 10^6 standing", "ns a pair"),
    boxed("w1", "the same in a box, 1 thread, ns", "1 thread, 10^6 standing", "ns a pair", FUTURES),
    boxed("w1", "the same in a box, 2 threads, ns", "2 threads, 10^6 standing", "ns a pair", FUTURES),
    row("w2", "schedule 10^6 from 2 threads, ns", "10^6 timers", "ns a schedule"),
    row("w2", "cancel them in random order, ns", "10^6 timers", "ns a cancel"),
    row("w2", "memory per timer, bytes", "10^6 timers", "bytes a timer"),
    row("w2", "memory kept 2 s after all were cancelled, %", "10^6 timers", "% kept"),
    row("w3", "10^6 due over 1 s: p99 lateness, ms", "10^6 timers over 1s", "ms late, p99"),
    row("w3", "the same: CPU per firing, ns", "10^6 timers over 1s", "CPU ns a firing"),
    row("w3", "10^6 due in one tick: per firing, ns", "10^6 timers in one tick", "ns a firing"),
    row("w3", "the same: CPU per firing, ns", "10^6 timers in one tick", "CPU ns a firing"),
    row("w4", "reset a random one of 10^5, 1 thread, ns", "10^5 timers, 1 thread", "ns a re-arm"),
    row("w4", "the same, 2 threads, ns", "10^5 timers, 2 threads", "ns a re-arm"),
    futures("w4", "reset a random `Sleep` of 10^5, 1 thread, ns", "10^5 timers, 1 thread", "ns a re-arm"),
    futures("w4", "the same, 2 threads, ns", "10^5 timers, 2 threads", "ns a re-arm"),
    boxed("w4", "the same in a box, then polled, 1 thread, ns", "10^5 timers, 1 thread", "ns a re-arm", POLLED),
    boxed("w4", "the same in a box, then polled, 2 threads, ns", "10^5 timers, 2 threads", "ns a re-arm", POLLED),
    row("w5", "context switches in 5 s beside one far timer", "one timer, an hour away", "context switches"),
    row("w6", "100k/s: p50 lateness, ms", "100k a second", "ms late, p50"),
    row("w6", "100k/s: p99 lateness, ms", "100k a second", "ms late, p99"),
    row("w6", "100k/s: CPU for a million timers, s", "100k a second", "CPU s per million"),
    row("w7", "schedule and cancel beside 10^7, ns", "10^7 standing", "ns a pair"),
    row("w7", "the longest call beside 10^6, ns", "10^6 standing", "ns a call, max"),
    row("w8", "4 of 1,000 callbacks sleep: lateness of the last other, ms", "4 of 1000 sleep 200ms", "ms late, max"),
    row("w9", "64 threads asleep, 10k/s: p50 lateness, ms", "10k firings a second", "ms late, p50"),
    row("w9", "the same: CPU per firing, µs", "10k firings a second", "CPU µs a firing"),
    row("w10", "500/s: p50 lateness, ms", "500 timers a second", "ms late, p50"),
    row("w10", "the same: CPU per timer, µs", "500 timers a second", "CPU µs a timer"),
    futures("w10", "500/s: p50 lateness of a `Sleep`, ms", "500 timers a second", "ms late, p50"),
    row("w10", "10k/s: p50 lateness, ms", "10000 timers a second", "ms late, p50"),
    row("w10", "the same: CPU per timer, µs", "10000 timers a second", "CPU µs a timer"),
    row("w11", "a queue shared by 4 threads: push and remove, ns", "4 threads", "ns a pair"),
    row("w11", "the same: the longest remove, ms", "4 threads", "ms a remove, max"),
    wheel("the wheel alone: insert, ns", "ns an insert"),
    wheel("the wheel alone: remove, ns", "ns a remove"),
    wheel("the wheel alone: advance tick by tick, per value, ns", "ns a value, advance"),
];

const fn row(workload: &'static str, what: &'static str, case: &'static str, figure: &'static str) -> Row {
    Row { workload, own: "corewheel", what, case, figure, others: None }
}

/// A row that has futures beside futures.
const fn futures(workload: &'static str, what: &'static str, case: &'static str, figure: &'static str) -> Row {
    Row { own: "corewheel-sleep", others: Some(FUTURES), ..row(workload, what, case, figure) }
}

/// A row that has futures in boxes beside such futures, as a program has them that had tokio's.
const fn boxed(
    workload: &'static str,
    what: &'static str,
    case: &'static str,
    figure: &'static str,
    others: &'static [&'static str],
) -> Row {
    Row { own: "corewheel-sleep-boxed", others: Some(others), ..row(workload, what, case, figure) }
}

const fn wheel(what: &'static str, figure: &'static str) -> Row {
    Row { own: "Wheel", ..row("wheel", what, "10^5 waiting", figure) }
}

/// Returns the page with the table between the marks as the record has it.
pub fn renew(page: &str, record: &Record) -> Result<String, String> {
    let (before, rest) = page.split_once(BEGIN).ok_or("the page has no mark where the table begins")?;
    let (_, after) = rest.split_once(END).ok_or("the page has no mark where the table ends")?;
    Ok(format!("{before}{BEGIN}{}{END}{after}", table(record)))
}

fn table(record: &Record) -> String {
    let head = "| | | corewheel | inline | best other | heap | best other / corewheel | measured |\n\
                |---|---|---:|---:|---:|---:|---|---|\n";
    ROWS.iter().fold(head.to_owned(), |table, row| table + &row.shown(record) + "\n")
}

impl Row {
    fn shown(&self, record: &Record) -> String {
        let line = |contender| record.line(self.workload, self.case, contender, self.figure);
        let own = line(self.own);
        let inline = if self.own == "corewheel" { line(INLINE) } else { None };
        let heap = line(if self.workload == "wheel" { "BinaryHeap" } else { "heap" });
        let best = self.best_other(record);
        let value = |line: Option<&Line>| line.and_then(|line| line.median).map(|median| median.value);
        let cell = |line| value(line).map_or_else(|| "–".to_owned(), number);
        let best_cell = best.map_or_else(|| "–".to_owned(), |line| format!("{} {}", line.contender, cell(best)));
        let verdict = value(own).zip(value(best)).map_or_else(|| "–".to_owned(), |(own, best)| verdict(own, best));
        format!(
            "| {} | {} | {} | {} | {best_cell} | {} | {verdict} | {} |",
            self.workload.to_uppercase().replace("WHEEL", "–"),
            self.what,
            cell(own),
            inline.map_or_else(String::new, |inline| cell(Some(inline))),
            cell(heap),
            measured([own, inline, best, heap]),
        )
    }

    /// The best of those that are not this crate's, and neither early nor lost a timer.
    fn best_other<'a>(&self, record: &'a Record) -> Option<&'a Line> {
        let is_sound = |line: &Line| {
            ["early", "lost"].iter().all(|fault| {
                let faults = record.median(self.workload, self.case, &line.contender, fault);
                faults.is_none_or(|faults| faults.max == 0.0)
            })
        };
        let is_other = |line: &&Line| {
            let name = line.contender.as_str();
            line.workload == self.workload
                && line.case == self.case
                && line.figure == self.figure
                && !name.starts_with("corewheel")
                && name != "Wheel"
                && !NO_TIMERS.contains(&name)
                && self.others.is_none_or(|others| others.contains(&name))
                && is_sound(line)
        };
        let others = record.lines.iter().filter(is_other).filter_map(|line| Some((line.median?.value, line)));
        others.min_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, line)| line)
    }
}

fn verdict(own: f64, best: f64) -> String {
    let ratio = best / own;
    if own == best || (1.0 / LEVEL..LEVEL).contains(&ratio) {
        "level".into()
    } else if ratio < 1.0 {
        format!("**{}x, a loss**", number(ratio))
    } else if own == 0.0 {
        "a win".into()
    } else {
        format!("{}x", number(ratio))
    }
}

/// From when the first is, and from when the others are if that is another day.
fn measured(lines: [Option<&Line>; 4]) -> String {
    let mut lines = lines.into_iter().flatten();
    let Some(first) = lines.next() else { return "–".into() };
    let mut text = first.date.clone();
    for line in lines.filter(|line| line.date != first.date) {
        let other = format!("; {} {}", line.contender, line.date);
        if !text.contains(&other) {
            text += &other;
        }
    }
    text
}
