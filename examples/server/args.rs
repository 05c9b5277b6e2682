//! The command line.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use bpaf::{Parser, construct, long};

use crate::options::number_or;
use crate::plan::Plan;
use crate::timeouts::Timeouts;

/// Allowed durations, in seconds.
const SECONDS: RangeInclusive<f64> = 0.001..=86_400.0;

pub struct Args {
    pub connections: usize,
    pub seconds: Duration,
    pub stall: u8,
    pub pause: Duration,
    pub threads: usize,
    pub idle_timeout: Duration,
    pub request_timeout: Duration,
    pub late: Duration,
    pub load_apart: bool,
    /// The address of the server whose load this process is.
    pub load_of: Option<SocketAddr>,
}

impl Args {
    pub fn from_command_line() -> Self {
        let seconds = |name, help, default| number_or(name, help, SECONDS, default).map(Duration::from_secs_f64);
        let connections = number_or("connections", "Connections to open", 1..=25_000, 2000);
        let time = seconds(
            "seconds",
            "Seconds within which the connections stall; the run ends when the server has closed the last of them",
            10.0,
        );
        let stall = number_or("stall", "Percent of the connections that stall", 0..=100, 20);
        let pause = seconds(
            "pause",
            "Mean of the seconds between an answer and the next request: at most a quarter of the idle timeout",
            0.1,
        );
        let threads = number_or("threads", "Number of threads of the server, and of the load", 1..=64, 2);
        let idle_timeout = seconds("idle-timeout", "Seconds without a byte after which a connection is closed", 4.0);
        let request_timeout = seconds(
            "request-timeout",
            "Seconds that a request may take, from its first byte to its response: at most half the idle timeout",
            2.0,
        );
        let late = seconds("late", "Maximum lateness of a close, in seconds", 2.0);
        let load_apart = long("load-apart").switch().help(
            "Run the load in a process of its own: each process opens half of the files, and the memory of this one \
             is the server's",
        );
        let load_of = long("load-of").argument("ADDRESS").hide().optional();
        let description = "A TCP server on loopback with timeouts by corewheel, under a load in which some connections \
                           stall. The server must close exactly the connections that stall, each on time and by the \
                           right timer. Exits with 1 if it closed another connection, or kept one that stalled.";
        construct!(Self {
            connections,
            seconds(time),
            stall,
            pause,
            threads,
            idle_timeout,
            request_timeout,
            late,
            load_apart,
            load_of
        })
        .to_options()
        .descr(description)
        .run()
    }

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
