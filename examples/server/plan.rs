//! The plan of the load: its parameters.

use std::net::SocketAddr;
use std::time::Duration;

use crate::timeouts::Timeouts;

/// Parameters of the load.
#[derive(Clone, Copy)]
pub struct Plan {
    pub server: SocketAddr,
    pub connections: usize,
    /// Percentage of connections that stall.
    pub stall: u8,
    /// Time within which they stall.
    pub time: Duration,
    /// Mean pause between an answer and the next request.
    pub pause: Duration,
    /// Maximum lateness of a close.
    pub late: Duration,
    pub timeouts: Timeouts,
}
