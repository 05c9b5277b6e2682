//! What a load has to provide.

use std::time::Duration;

use crate::contender::Contender;

/// A request that a server must not answer.
pub const UNANSWERED: u64 = u64::MAX;

/// A server, and the clients that keep it busy.
pub trait Load {
    const NAME: &'static str;
    /// Number of requests in a step of a client.
    const STEP: u64 = 1;

    /// Starts the server, and connects its clients. Each request has the limit.
    fn start<C: Contender>(limit: Duration) -> impl Future<Output = Vec<impl Client>>;
}

pub trait Client: Send + 'static {
    /// Makes a request, or as many as a step has. Returns whether the right answer came in time.
    fn step(&mut self, request: u64) -> impl Future<Output = bool> + Send;
}
