//! The clients: each sends two requests and closes its connection, or stalls.

use fastrand::Rng;

use crate::proxy::{Proxy, Wait};
use crate::tick::SECOND;

const REQUESTS: u32 = 2;
/// Number of pieces in which a request's header arrives, and in which the answer does.
const HEADER: u32 = 3;
const ANSWER: u32 = 10;

pub struct Client {
    pub id: usize,
    /// The wait of the proxy in which this client stalls; `None` if it never does.
    pub stalls: Option<Wait>,
    /// The tick since which it stalls.
    pub since: u64,
    state: State,
    /// Number of requests that have been answered.
    requests: u32,
}

enum State {
    Unconnected,
    Connecting,
    /// The client has sent this number of pieces of a header.
    SendingHeader(u32),
    /// The client has received this number of pieces of an answer.
    ReceivingAnswer(u32),
    BetweenRequests,
}

impl Client {
    /// Creates a client. For each [`Wait`], one client in twenty stalls in it.
    pub fn new(id: usize) -> Self {
        let stalls = Wait::ALL.get(id % 20).copied();
        Self { id, stalls, since: 0, state: State::Unconnected, requests: 0 }
    }

    /// Makes the client's next step. Returns the number of ticks until the one after, if there is one.
    pub fn act(&mut self, proxy: &mut Proxy, now: u64, rng: &mut Rng) -> Option<u64> {
        let id = self.id;
        let is_last = self.requests + 1 == REQUESTS;
        match self.state {
            State::Unconnected => {
                proxy.opened(id);
                self.state = State::Connecting;
                if self.stall(Wait::Connect, now) {
                    return None;
                }
            }
            State::Connecting => {
                proxy.request_begins(id);
                self.state = State::SendingHeader(0);
                self.stall(Wait::Header, now);
            }
            State::SendingHeader(_) if self.stalls == Some(Wait::Header) => {
                // One byte a second, but never the last one.
                proxy.byte(id);
                return Some(SECOND);
            }
            State::SendingHeader(pieces) => {
                proxy.byte(id);
                self.state = State::SendingHeader(pieces + 1);
                if pieces + 1 == HEADER {
                    proxy.header_complete(id);
                    self.state = State::ReceivingAnswer(0);
                }
            }
            State::ReceivingAnswer(pieces) => {
                proxy.byte(id);
                self.state = State::ReceivingAnswer(pieces + 1);
                if pieces == ANSWER / 2 && is_last && self.stall(Wait::Idle, now) {
                    return None;
                }
                if pieces + 1 == ANSWER {
                    proxy.answered(id);
                    self.state = State::BetweenRequests;
                    self.requests += 1;
                    let stalls = is_last && self.stall(Wait::KeepAlive, now);
                    return (!stalls).then(|| rng.u64(SECOND..=5 * SECOND));
                }
            }
            State::BetweenRequests if self.requests == REQUESTS => {
                proxy.closed(id);
                return None;
            }
            State::BetweenRequests => {
                proxy.request_begins(id);
                self.state = State::SendingHeader(1);
            }
        }
        Some(rng.u64(1..=SECOND / 5))
    }

    /// Returns whether the client stalls in this wait, and if so records since when.
    fn stall(&mut self, wait: Wait, now: u64) -> bool {
        let stalls = self.stalls == Some(wait);
        if stalls {
            self.since = now;
        }
        stalls
    }
}
