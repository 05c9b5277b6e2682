//! Prints the figures of a run.

use std::fmt::Display;
use std::time::Duration;

use corewheel::Stats;

use crate::client::Habit;
use crate::output;
use crate::verdict::Verdict;

pub fn print(verdict: &Verdict, stats: &Stats, answers: u64, time: Duration) {
    println!("{:<22}{:>12}{:>12}", "", "total", "per second");
    let count = |name, count: u64| {
        let rate = count as f64 / time.as_secs_f64();
        row(name, [count, rate as u64].map(output::count));
    };
    count("requests answered", answers);
    count("timers armed", stats.scheduled);
    count("timers reset", stats.resets);
    count("timers cancelled", stats.cancelled);
    count("timers fired", stats.fired);

    println!();
    row("lateness", ["p50", "p99", "p99.9", "max"]);
    row("of the timers", quantiles(|share| stats.lateness.quantile(share)));
    row("of the server's closes", quantiles(|share| quantile(&verdict.as_closed, share)));
    row("as the load saw them", quantiles(|share| quantile(&verdict.as_seen, share)));
    println!(
        "The first row is the timer's, with its waits for a core. The others add the server's and the load's threads."
    );

    println!();
    row("connections", ["total"]);
    for habit in Habit::all() {
        row(habit.name(), [verdict.habits.iter().filter(|&&other| other == habit).count()]);
    }
}

fn row<const N: usize>(name: &str, cells: [impl Display; N]) {
    let cells: String = cells.iter().map(|cell| format!("{:>12}", cell.to_string())).collect();
    println!("{name:<22}{cells}");
}

fn quantiles(quantile: impl Fn(f64) -> Duration) -> [String; 4] {
    [0.5, 0.99, 0.999, 1.0].map(|share| format!("{:.2?}", quantile(share)))
}

fn quantile(sorted: &[Duration], share: f64) -> Duration {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}
