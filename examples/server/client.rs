//! One connection of the load.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use fastrand::Rng;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};

use crate::plan::Plan;
use crate::timeouts::Timeout;

const REQUEST: &[u8] = b"Time and tide wait for no man.\n";
const HALF: usize = REQUEST.len() / 2;
/// One request in `IN_HALVES`, on average, is sent in two halves.
const IN_HALVES: u32 = 8;

/// What a connection does when its time to stall has come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Habit {
    /// It continues to send requests.
    Steady,
    /// It sends nothing more.
    FallSilent,
    /// It sends half a request, and nothing more.
    StopHalfway,
    /// It sends half a request, and then single bytes with pauses between them.
    Trickle,
}

impl Habit {
    pub const STALLING: [Self; 3] = [Self::FallSilent, Self::StopHalfway, Self::Trickle];

    pub fn all() -> impl Iterator<Item = Self> {
        [Self::Steady].into_iter().chain(Self::STALLING)
    }

    /// Returns the timer that must close such a connection.
    pub fn closed_by(self) -> Option<Timeout> {
        match self {
            Self::Steady => None,
            Self::FallSilent => Some(Timeout::Idle),
            Self::StopHalfway | Self::Trickle => Some(Timeout::Request),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::FallSilent => "silent",
            Self::StopHalfway => "stopped halfway",
            Self::Trickle => "trickling",
        }
    }
}

/// What the client observed of its connection.
pub struct Outcome {
    pub address: SocketAddr,
    pub habit: Habit,
    /// If the server closed the connection: how long the interval was that the closing timer measures. It starts before
    /// the client sent the byte that began it, and ends when the client found the connection closed.
    pub closed_after: Option<Duration>,
}

/// What a client has received from the server.
#[derive(PartialEq, Eq)]
pub enum Received {
    Nothing,
    Connected,
    Answer,
}

enum State {
    Connecting,
    /// Between an answer and the next request.
    Thinking,
    /// Between the two halves of a request.
    Halfway,
    /// For an answer, of which this number of bytes is missing.
    Waiting(usize),
    Stalled,
    Closed(Instant),
}

pub struct Client {
    address: SocketAddr,
    stream: TcpStream,
    habit: Habit,
    stall_after: Duration,
    /// Pause within a request.
    pause: Duration,
    state: State,
    last_byte: Instant,
    first_byte: Instant,
}

impl Client {
    pub fn connect(
        plan: &Plan,
        habit: Habit,
        stall_after: Duration,
        registry: &Registry,
        token: Token,
    ) -> io::Result<Self> {
        let now = Instant::now();
        let mut stream = TcpStream::connect(plan.server)?;
        registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
        Ok(Self {
            address: stream.local_addr()?,
            stream,
            habit,
            stall_after,
            pause: plan.timeouts.request / 10,
            state: State::Connecting,
            last_byte: now,
            first_byte: now,
        })
    }

    /// Returns whether the server has yet to close this connection.
    pub fn awaits_close(&self) -> bool {
        self.habit != Habit::Steady && !matches!(self.state, State::Closed(_))
    }

    pub fn outcome(&self) -> Outcome {
        let since = match self.habit {
            Habit::Steady | Habit::FallSilent => self.last_byte,
            Habit::StopHalfway | Habit::Trickle => self.first_byte,
        };
        let closed_after = if let State::Closed(at) = self.state { Some(at - since) } else { None };
        Outcome { address: self.address, habit: self.habit, closed_after }
    }

    /// Makes the client's next step, `elapsed` after the start. Returns the time until the one after, if the client
    /// need not wait for the server.
    pub fn act(&mut self, elapsed: Duration, rng: &mut Rng) -> Option<Duration> {
        match self.state {
            State::Thinking if self.habit != Habit::Steady && self.stall_after <= elapsed => self.stall(),
            State::Thinking if rng.u32(..IN_HALVES) == 0 => {
                self.begin(&REQUEST[..HALF], State::Halfway);
                Some(self.pause)
            }
            State::Thinking => {
                self.begin(REQUEST, State::Waiting(REQUEST.len()));
                None
            }
            State::Halfway => {
                self.send(&REQUEST[HALF..], State::Waiting(REQUEST.len()));
                None
            }
            State::Stalled => {
                self.send(b".", State::Stalled);
                Some(self.pause)
            }
            State::Connecting | State::Waiting(_) | State::Closed(_) => None,
        }
    }

    /// Reads all that the server has sent.
    pub fn receive(&mut self) -> Received {
        if matches!(self.state, State::Connecting) {
            self.state = State::Thinking;
            return Received::Connected;
        }
        let mut buffer = [0; REQUEST.len()];
        let mut received = Received::Nothing;
        while !matches!(self.state, State::Closed(_)) {
            match (self.stream.read(&mut buffer), &self.state) {
                (Ok(count), &State::Waiting(missing)) if 0 < count && count < missing => {
                    self.state = State::Waiting(missing - count);
                }
                (Ok(count), &State::Waiting(missing)) if count == missing => {
                    self.state = State::Thinking;
                    received = Received::Answer;
                }
                (Err(error), _) if error.kind() == ErrorKind::WouldBlock => break,
                (Err(error), _) if error.kind() == ErrorKind::Interrupted => {}
                // The end of the stream, an error, or bytes that answer no request.
                _ => self.state = State::Closed(Instant::now()),
            }
        }
        received
    }

    fn stall(&mut self) -> Option<Duration> {
        if self.habit == Habit::FallSilent {
            self.state = State::Stalled;
            return None;
        }
        self.begin(&REQUEST[..HALF], State::Stalled);
        (self.habit == Habit::Trickle).then_some(self.pause)
    }

    fn begin(&mut self, bytes: &[u8], next: State) {
        self.first_byte = Instant::now();
        self.send(bytes, next);
    }

    fn send(&mut self, bytes: &[u8], next: State) {
        let now = Instant::now();
        match self.stream.write_all(bytes) {
            Ok(()) => (self.last_byte, self.state) = (now, next),
            Err(_) => self.state = State::Closed(Instant::now()),
        }
    }
}
