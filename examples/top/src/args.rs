//! The command line.

use std::ops::RangeInclusive;
use std::time::Duration;

use bpaf::{Parser, construct, long};

use crate::options::{number, number_or};

/// Allowed durations, in seconds.
const SECONDS: RangeInclusive<f64> = 0.1..=86_400.0;

pub struct Args {
    pub once: bool,
    pub seconds: Option<Duration>,
    /// Time from one frame to the next.
    pub every: Duration,
    /// Time that the histogram covers.
    pub window: Duration,
    /// Columns and rows of the frame with `--once`.
    pub size: (u16, u16),
    pub connections: usize,
    /// Percentage of connections that stall.
    pub stall: u8,
    pub threads: usize,
    pub shards: Option<usize>,
    pub workers: Option<usize>,
    pub block: usize,
}

impl Args {
    pub fn from_command_line() -> Self {
        let once =
            long("once").help("Print one frame as plain text after --seconds, and end; needs no terminal").switch();
        let end = "Seconds until the end [default: 5 with --once, otherwise until the key q]";
        let time = number("seconds", end, SECONDS).map(Duration::from_secs_f64).optional();
        let every = number_or("every", "Seconds from one frame to the next", SECONDS, 1.0);
        let every = every.map(Duration::from_secs_f64);
        let window = number_or("window", "Seconds that the histogram covers", SECONDS, 10.0);
        let window = window.map(Duration::from_secs_f64);
        let size = long("size").help("Columns and rows of the frame with --once [default: 80x24]");
        let size = size.argument::<String>("SIZE").parse(|text| parse_size(&text)).fallback((80, 24));
        let connections = number_or("connections", "Connections of the load", 4..=25_000, 2000);
        let stall =
            number_or("stall", "Percent of the connections that stall, each once in some 14 seconds", 0..=100, 20);
        let threads = number_or("threads", "Number of threads of the server", 1..=64, 2);
        let shards =
            number("shards", "Number of shards of the timer [default: one for each core]", 1..=1024).optional();
        let workers = number("workers", "Number of workers of the timer [default: one for each core]", 1..=1024);
        let workers = workers.optional();
        let block = number_or(
            "block",
            "Number of callbacks that block for 0.2 seconds, each once a second: more than there are workers need \
             extra threads",
            0..=200,
            0,
        );
        let description = "Draws a live timer in the terminal, over the load of the example `server`. The key q quits.";
        construct!(Self {
            once,
            seconds(time),
            every,
            window,
            size,
            connections,
            stall,
            threads,
            shards,
            workers,
            block
        })
        .to_options()
        .descr(description)
        .run()
    }
}

fn parse_size(text: &str) -> Result<(u16, u16), String> {
    let (columns, rows) = text.split_once('x').ok_or("must be like 80x24")?;
    let size = [columns, rows].map(|number| number.parse::<u16>().map_err(|error| error.to_string()));
    match size {
        [Ok(columns @ 80..=500), Ok(rows @ 24..=500)] => Ok((columns, rows)),
        [Err(error), _] | [_, Err(error)] => Err(error),
        _ => Err("must be between 80x24 and 500x500".to_owned()),
    }
}
