//! The command line.

use std::time::Duration;

use clap::Parser;
use clap::builder::RangedU64ValueParser;

/// Draws a live timer in the terminal, over the load of the example `server`. The key q quits.
#[derive(Parser)]
pub struct Args {
    /// Print one frame as plain text after --seconds, and end; needs no terminal
    #[arg(long)]
    pub once: bool,

    /// Seconds until the end [default: 5 with --once, otherwise until the key q]
    #[arg(long, value_parser = seconds)]
    pub seconds: Option<Duration>,

    /// Seconds from one frame to the next
    #[arg(long, default_value = "1", value_parser = seconds)]
    pub every: Duration,

    /// Seconds that the histogram covers
    #[arg(long, default_value = "10", value_parser = seconds)]
    pub window: Duration,

    /// Columns and rows of the frame with --once
    #[arg(long, default_value = "80x24", value_parser = size)]
    pub size: (u16, u16),

    /// Connections of the load
    #[arg(long, default_value_t = 2000, value_parser = RangedU64ValueParser::<usize>::new().range(4..=25_000))]
    pub connections: usize,

    /// Percent of the connections that stall, each once in some 14 seconds
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u8).range(..=100))]
    pub stall: u8,

    /// Number of threads of the server
    #[arg(long, default_value_t = 2, value_parser = RangedU64ValueParser::<usize>::new().range(1..=64))]
    pub threads: usize,

    /// Number of shards of the timer [default: one for each core]
    #[arg(long, value_parser = RangedU64ValueParser::<usize>::new().range(1..=1024))]
    pub shards: Option<usize>,

    /// Number of workers of the timer [default: one for each core]
    #[arg(long, value_parser = RangedU64ValueParser::<usize>::new().range(1..=1024))]
    pub workers: Option<usize>,

    /// Number of callbacks that block for 0.2 seconds, each once a second: more than there are workers need extra threads
    #[arg(long, default_value_t = 0, value_parser = RangedU64ValueParser::<usize>::new().range(..=200))]
    pub block: usize,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().map_err(|error| error.to_string())?;
    let duration = Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?;
    let allowed = Duration::from_millis(100)..=Duration::from_secs(24 * 3600);
    if allowed.contains(&duration) { Ok(duration) } else { Err("must be between 0.1 and 86400".to_owned()) }
}

fn size(text: &str) -> Result<(u16, u16), String> {
    let (columns, rows) = text.split_once('x').ok_or("must be like 80x24")?;
    let size = [columns, rows].map(|number| number.parse::<u16>().map_err(|error| error.to_string()));
    match size {
        [Ok(columns @ 80..=500), Ok(rows @ 24..=500)] => Ok((columns, rows)),
        [Err(error), _] | [_, Err(error)] => Err(error),
        _ => Err("must be between 80x24 and 500x500".to_owned()),
    }
}
