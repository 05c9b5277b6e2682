//! The proxy: its connections, their timers, and how they end.

use std::mem;
use std::sync::{Arc, Mutex};

use corewheel::{BuildError, CancelOnDrop, Executor, ManualClock, Timer};

use crate::tick::{SECOND, TICK};

/// A wait of the proxy, which has a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    Connect,
    Header,
    Idle,
    KeepAlive,
}

impl Wait {
    pub const ALL: [Self; 4] = [Self::Connect, Self::Header, Self::Idle, Self::KeepAlive];

    /// Returns the timeout in ticks.
    pub const fn ticks(self) -> u64 {
        match self {
            Self::Connect => 5 * SECOND,
            Self::Header => 10 * SECOND,
            Self::Idle => 30 * SECOND,
            Self::KeepAlive => 15 * SECOND,
        }
    }
}

/// How a connection ended.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    Closed,
    /// The timer of this wait closed the connection, at this tick.
    TimedOut(Wait, u64),
}

/// The proxy's side of a connection.
#[derive(Default)]
pub struct Connection {
    /// The timer of the current wait, except `Idle`: for the connection, the header, or the next request.
    step: Option<CancelOnDrop>,
    idle: Option<CancelOnDrop>,
    pub end: Option<End>,
}

pub struct Proxy {
    clock: ManualClock,
    pub timer: Timer,
    pub connections: Vec<Connection>,
    /// Timers that have fired in this tick.
    fired: Arc<Mutex<Vec<(u32, Wait)>>>,
    pub armed: [u64; Wait::ALL.len()],
    /// Number of resets of idle timers, one for each byte.
    pub resets: u64,
    /// Number of connections that have ended.
    pub ended: u64,
}

impl Proxy {
    pub fn start(connections: usize) -> Result<Self, BuildError> {
        let clock = ManualClock::new();
        // One thread serves all connections, so one shard suffices.
        let builder = Timer::builder().clock(clock.clone()).tick(TICK).shards(1).executor(Executor::Inline);
        let connections = (0..connections).map(|_| Connection::default()).collect();
        Ok(Self {
            clock,
            timer: builder.build()?,
            connections,
            fired: Arc::default(),
            armed: [0; 4],
            resets: 0,
            ended: 0,
        })
    }

    /// Advances the clock by a tick, and closes the connections whose timers fire.
    pub fn advance_tick(&mut self, now: u64) {
        self.clock.advance(TICK);
        let fired = mem::take(&mut *self.fired.lock().expect("no thread panics while it has the lock"));
        for (connection, wait) in fired {
            self.end(connection as usize, End::TimedOut(wait, now));
        }
    }

    pub fn opened(&mut self, connection: usize) {
        self.connections[connection].step = Some(self.arm(connection, Wait::Connect));
    }

    /// The upstream server is connected, or another request begins.
    pub fn request_begins(&mut self, connection: usize) {
        self.connections[connection] = Connection::default();
        self.connections[connection].step = Some(self.arm(connection, Wait::Header));
        self.connections[connection].idle = Some(self.arm(connection, Wait::Idle));
    }

    pub fn byte(&mut self, connection: usize) {
        let idle = self.connections[connection].idle.as_ref().expect("a request is being served");
        assert!(idle.reset(TICK * Wait::Idle.ticks() as u32), "an open connection's timer is pending");
        self.resets += 1;
    }

    pub fn header_complete(&mut self, connection: usize) {
        self.connections[connection].step = None;
    }

    pub fn answered(&mut self, connection: usize) {
        self.connections[connection] = Connection::default();
        self.connections[connection].step = Some(self.arm(connection, Wait::KeepAlive));
    }

    pub fn closed(&mut self, connection: usize) {
        self.end(connection, End::Closed);
    }

    fn end(&mut self, connection: usize, end: End) {
        self.ended += 1;
        self.connections[connection] = Connection { end: Some(end), ..Connection::default() };
    }

    fn arm(&mut self, connection: usize, wait: Wait) -> CancelOnDrop {
        self.armed[wait as usize] += 1;
        let fired = self.fired.clone();
        let connection = connection as u32;
        let fire = move || fired.lock().expect("no thread panics while it has the lock").push((connection, wait));
        let timer = self.timer.schedule(TICK * wait.ticks() as u32, fire).expect("the timer is not shut down");
        timer.cancel_on_drop()
    }
}
