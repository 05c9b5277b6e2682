//! The command line.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Parser;
use clap::builder::RangedU64ValueParser;

use crate::plan::Plan;
use crate::timeouts::Timeouts;

/// A TCP server on loopback with timeouts by corewheel, under a load in which some connections stall.
///
/// The server must close exactly the connections that stall, each on time and by the right timer. Exits with 1 if it
/// closed another connection, or kept one that stalled.
#[derive(Parser)]
pub struct Args {
    /// Connections to open
    #[arg(long, default_value_t = 2000, value_parser = RangedU64ValueParser::<usize>::new().range(1..=25_000))]
    pub connections: usize,

    /// Seconds within which the connections stall; the run ends when the server has closed the last of them
    #[arg(long, default_value = "10", value_parser = seconds)]
    pub seconds: Duration,

    /// Percent of the connections that stall
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u8).range(..=100))]
    pub stall: u8,

    /// Mean of the seconds between an answer and the next request: at most a quarter of the idle timeout
    #[arg(long, default_value = "0.1", value_parser = seconds)]
    pub pause: Duration,

    /// Number of threads of the server, and of the load
    #[arg(long, default_value_t = 2, value_parser = RangedU64ValueParser::<usize>::new().range(1..=64))]
    pub threads: usize,

    /// Seconds without a byte after which a connection is closed
    #[arg(long, default_value = "4", value_parser = seconds)]
    pub idle_timeout: Duration,

    /// Seconds that a request may take, from its first byte to its response: at most half the idle timeout
    #[arg(long, default_value = "2", value_parser = seconds)]
    pub request_timeout: Duration,

    /// Maximum lateness of a close, in seconds
    #[arg(long, default_value = "2", value_parser = seconds)]
    pub late: Duration,

    /// Run the load in a process of its own: each process opens half of the files, and the memory of this one is the server's
    #[arg(long)]
    pub load_apart: bool,

    /// Be that process, for the server at this address
    #[arg(long, hide = true, value_name = "ADDRESS")]
    pub load_of: Option<SocketAddr>,
}

impl Args {
    pub fn plan(&self, server: SocketAddr, timeouts: Timeouts) -> Plan {
        Plan {
            server,
            connections: self.connections,
            stall: self.stall,
            time: self.seconds,
            pause: self.pause,
            late: self.late,
            timeouts,
        }
    }

    /// Returns the timeouts, or an error if the load could not distinguish which one closed a connection.
    pub fn timeouts(&self) -> Result<Timeouts, &'static str> {
        if self.request_timeout > self.idle_timeout / 2 {
            return Err("--request-timeout must be at most half of --idle-timeout: \
                        otherwise either may close a connection that stops within a request");
        }
        if self.pause > self.idle_timeout / 4 {
            return Err("--pause must be at most a quarter of --idle-timeout: \
                        otherwise the server may close a connection that does not stall");
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
