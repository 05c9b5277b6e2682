//! The two timers of a connection, and their durations.

use std::fmt;
use std::time::Duration;

/// A timer of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Timeout {
    /// Runs since the last byte.
    Idle,
    /// Runs since the first byte of an unanswered request.
    Request,
}

impl fmt::Display for Timeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Idle => "idle timeout",
            Self::Request => "request deadline",
        })
    }
}

/// The durations of the two timers.
#[derive(Clone, Copy)]
pub struct Timeouts {
    pub idle: Duration,
    pub request: Duration,
}

impl Timeouts {
    pub fn of(&self, timeout: Timeout) -> Duration {
        match timeout {
            Timeout::Idle => self.idle,
            Timeout::Request => self.request,
        }
    }
}
