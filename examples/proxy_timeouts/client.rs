//! The clients, who ask twice and go, or stall.

use fastrand::Rng;

use crate::SECOND;
use crate::proxy::{Proxy, Wait};

const REQUESTS: u32 = 2;
/// The pieces that a request's header comes in, and the answer.
const HEADER: u32 = 3;
const ANSWER: u32 = 10;

pub struct Client {
    pub id: usize,
    /// What it has the proxy wait for in vain, if it does not behave.
    pub stalls: Option<Wait>,
    /// Since which tick it does.
    pub since: u64,
    state: State,
    /// That have been answered.
    requests: u32,
}

enum State {
    Away,
    Connecting,
    /// So many pieces of a header have been sent.
    Asking(u32),
    /// So many pieces of an answer have come.
    Answered(u32),
    Resting,
}

impl Client {
    /// One in twenty stalls in each of the ways.
    pub fn new(id: usize) -> Self {
        let stalls = Wait::ALL.get(id % 20).copied();
        Self { id, stalls, since: 0, state: State::Away, requests: 0 }
    }

    /// Does the next thing. Returns in how many ticks it will do another.
    pub fn act(&mut self, proxy: &mut Proxy, now: u64, rng: &mut Rng) -> Option<u64> {
        let id = self.id;
        let is_last = self.requests + 1 == REQUESTS;
        match self.state {
            State::Away => {
                proxy.opened(id);
                self.state = State::Connecting;
                if self.stall(Wait::Connect, now) {
                    return None;
                }
            }
            State::Connecting => {
                proxy.asked(id);
                self.state = State::Asking(0);
                self.stall(Wait::Header, now);
            }
            State::Asking(_) if self.stalls == Some(Wait::Header) => {
                // Byte by byte, and never the last.
                proxy.byte(id);
                return Some(SECOND);
            }
            State::Asking(pieces) => {
                proxy.byte(id);
                self.state = State::Asking(pieces + 1);
                if pieces + 1 == HEADER {
                    proxy.header_complete(id);
                    self.state = State::Answered(0);
                }
            }
            State::Answered(pieces) => {
                proxy.byte(id);
                self.state = State::Answered(pieces + 1);
                if pieces == ANSWER / 2 && is_last && self.stall(Wait::Idle, now) {
                    return None;
                }
                if pieces + 1 == ANSWER {
                    proxy.answered(id);
                    self.state = State::Resting;
                    self.requests += 1;
                    let stalls = is_last && self.stall(Wait::KeepAlive, now);
                    return (!stalls).then(|| rng.u64(SECOND..=5 * SECOND));
                }
            }
            State::Resting if self.requests == REQUESTS => {
                proxy.closed(id);
                return None;
            }
            State::Resting => {
                proxy.asked(id);
                self.state = State::Asking(1);
            }
        }
        Some(rng.u64(1..=SECOND / 5))
    }

    /// Whether this is the way in which it stalls.
    fn stall(&mut self, wait: Wait, now: u64) -> bool {
        let stalls = self.stalls == Some(wait);
        if stalls {
            self.since = now;
        }
        stalls
    }
}
