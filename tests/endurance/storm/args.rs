//! The command line.

use clap::Parser;
use clap::builder::RangedU64ValueParser;

/// Runs timers on the real clock through races of many kinds, from many threads, and checks how each of them ended.
///
/// Exits with 1 if a timer was early, was lost, or ended in two ways.
#[derive(Parser)]
pub struct Args {
    /// Timers to schedule
    #[arg(long, default_value_t = 100_000_000, value_parser = RangedU64ValueParser::<u64>::new().range(1..))]
    pub timers: u64,

    /// Seed of all random choices; the schedule of the threads still differs [default: random]
    #[arg(long)]
    pub seed: Option<u64>,

    /// Threads that use a timer at the same time
    #[arg(long, default_value_t = 8, value_parser = RangedU64ValueParser::<usize>::new().range(1..=256))]
    pub threads: usize,
}
