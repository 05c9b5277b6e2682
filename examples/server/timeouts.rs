//! What the server waits for, and for how long.

use std::fmt;
use std::time::Duration;

/// A timer of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Timeout {
    /// Since the last byte.
    Idle,
    /// Since the first byte of a request that has not been answered.
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

/// How long each of them is.
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
