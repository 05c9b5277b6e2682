//! The command line.

use std::time::Duration;

use clap::Parser;
use clap::builder::RangedU64ValueParser;

use crate::timeouts::Timeouts;

/// A TCP server on loopback whose timeouts are held by corewheel, under a load of which a part stalls.
///
/// It must close exactly the connections that stall, each by the right timer and at its time. Exits with 1 if one was
/// closed wrongly, or wrongly kept.
#[derive(Parser)]
pub struct Args {
    /// Connections to open
    #[arg(long, default_value_t = 2000, value_parser = RangedU64ValueParser::<usize>::new().range(1..=25_000))]
    pub connections: usize,

    /// Seconds within which the connections stall; the run ends when the last of them has been closed
    #[arg(long, default_value = "10", value_parser = seconds)]
    pub seconds: Duration,

    /// Percent of the connections that stall
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u8).range(..=100))]
    pub stall: u8,

    /// Seconds between an answer and the next request, on average: a quarter of the idle timeout at the most
    #[arg(long, default_value = "0.1", value_parser = seconds)]
    pub pause: Duration,

    /// Threads of the server, and as many of the load
    #[arg(long, default_value_t = 2, value_parser = RangedU64ValueParser::<usize>::new().range(1..=64))]
    pub threads: usize,

    /// Seconds without a byte after which a connection is closed
    #[arg(long, default_value = "4", value_parser = seconds)]
    pub idle_timeout: Duration,

    /// Seconds that a request may take, from its first byte to its response: half the idle timeout at the most
    #[arg(long, default_value = "2", value_parser = seconds)]
    pub request_timeout: Duration,

    /// Seconds that a close may be late
    #[arg(long, default_value = "2", value_parser = seconds)]
    pub late: Duration,
}

impl Args {
    /// What the timeouts are, if the load can tell them apart.
    pub fn timeouts(&self) -> Result<Timeouts, &'static str> {
        if self.request_timeout > self.idle_timeout / 2 {
            return Err("--request-timeout must be half of --idle-timeout at the most: \
                        otherwise either may close a connection that stops within a request");
        }
        if self.pause > self.idle_timeout / 4 {
            return Err("--pause must be a quarter of --idle-timeout at the most: \
                        otherwise a connection that does not stall may seem to");
        }
        Ok(Timeouts { idle: self.idle_timeout, request: self.request_timeout })
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().map_err(|error| error.to_string())?;
    let duration = Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?;
    let allowed = Duration::from_millis(1)..=Duration::from_secs(24 * 3600);
    if allowed.contains(&duration) { Ok(duration) } else { Err("must be between 0.001 and 86400".to_owned()) }
}
