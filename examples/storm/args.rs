//! The command line.

use clap::Parser;
use clap::builder::RangedU64ValueParser;

/// Timers on the real clock in races of every kind, from many threads, and an exact account of what became of each.
///
/// Exits with 1 if a timer was early, was lost, or ended in two ways.
#[derive(Parser)]
pub struct Args {
    /// Timers to schedule
    #[arg(long, default_value_t = 100_000_000, value_parser = RangedU64ValueParser::<u64>::new().range(1..))]
    pub timers: u64,

    /// What all is drawn from, but for what the threads do to each other [default: another every time]
    #[arg(long)]
    pub seed: Option<u64>,

    /// Threads that use a timer at the same time
    #[arg(long, default_value_t = 8, value_parser = RangedU64ValueParser::<usize>::new().range(1..=256))]
    pub threads: usize,
}
