//! The table.

use crate::measure::{Case, Turn};
use crate::spread::spread;
use crate::system;

pub fn head() {
    println!("{}, {}\n", system::date(), system::machine());
    println!(
        "| load | workers | timeout | 1000 requests a second | CPU ns a request | cost of the timeout, CPU ns a request \
         | armed a request |"
    );
    println!("|---|---:|---|---:|---:|---:|---:|");
}

/// Prints the rows of a load. Its first case has no timeout.
pub fn rows(cases: &[Case], workers: usize, turns: &[Vec<Turn>]) {
    let without = &turns[0];
    for (index, (case, turns)) in cases.iter().zip(turns).enumerate() {
        let rate = spread(turns.iter().map(|turn| turn.requests_a_second / 1e3), 1);
        let cpu = spread(turns.iter().map(|turn| turn.cpu_nanos), 0);
        let costs = turns.iter().zip(without).map(|(turn, without)| turn.cpu_nanos - without.cpu_nanos);
        let cost = if index == 0 { "–".into() } else { spread(costs, 0) };
        let armed = turns[0].armed.map_or("–".into(), |armed| format!("{armed:.2}"));
        let Case { load, contender, .. } = case;
        println!("| {load} | {workers} | {contender} | {rate} | {cpu} | {cost} | {armed} |");
    }
}
