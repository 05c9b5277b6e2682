//! The proxy: the timers of its connections, and what becomes of them.

use std::mem;
use std::sync::{Arc, Mutex};

use corewheel::{BuildError, CancelOnDrop, Executor, ManualClock, Timer};

use crate::{SECOND, TICK};

/// What the proxy waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    Connect,
    Header,
    Idle,
    KeepAlive,
}

impl Wait {
    pub const ALL: [Self; 4] = [Self::Connect, Self::Header, Self::Idle, Self::KeepAlive];

    /// For so many ticks.
    pub const fn ticks(self) -> u64 {
        match self {
            Self::Connect => 5 * SECOND,
            Self::Header => 10 * SECOND,
            Self::Idle => 30 * SECOND,
            Self::KeepAlive => 15 * SECOND,
        }
    }
}

/// How a connection has ended.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    Closed,
    /// At this tick.
    TimedOut(Wait, u64),
}

/// The proxy's side of a connection.
#[derive(Default)]
pub struct Connection {
    /// Until the next step: connected, header complete, next request.
    step: Option<CancelOnDrop>,
    idle: Option<CancelOnDrop>,
    pub end: Option<End>,
}

pub struct Proxy {
    clock: ManualClock,
    pub timer: Timer,
    pub connections: Vec<Connection>,
    /// The timers that have fired in this tick.
    fired: Arc<Mutex<Vec<(u32, Wait)>>>,
    pub armed: [u64; Wait::ALL.len()],
    /// The timers for idleness, at every byte.
    pub moved: u64,
    /// Connections.
    pub ended: u64,
}

impl Proxy {
    pub fn start(connections: usize) -> Result<Self, BuildError> {
        let clock = ManualClock::new();
        // One thread has all the connections, so one shard has all the timers.
        let builder = Timer::builder().clock(clock.clone()).tick(TICK).shards(1).executor(Executor::Inline);
        let connections = (0..connections).map(|_| Connection::default()).collect();
        Ok(Self {
            clock,
            timer: builder.build()?,
            connections,
            fired: Arc::default(),
            armed: [0; 4],
            moved: 0,
            ended: 0,
        })
    }

    /// Lets a tick pass, and closes the connections whose timers fire.
    pub fn pass_tick(&mut self, now: u64) {
        self.clock.advance(TICK);
        let fired = mem::take(&mut *self.fired.lock().expect("a lock"));
        for (connection, wait) in fired {
            self.end(connection as usize, End::TimedOut(wait, now));
        }
    }

    pub fn opened(&mut self, connection: usize) {
        self.connections[connection].step = Some(self.arm(connection, Wait::Connect));
    }

    /// The upstream server is connected, or another request begins.
    pub fn asked(&mut self, connection: usize) {
        self.connections[connection] = Connection::default();
        self.connections[connection].step = Some(self.arm(connection, Wait::Header));
        self.connections[connection].idle = Some(self.arm(connection, Wait::Idle));
    }

    pub fn byte(&mut self, connection: usize) {
        let idle = self.connections[connection].idle.as_ref().expect("a request is on its way");
        assert!(idle.reset(TICK * Wait::Idle.ticks() as u32), "an open connection's timer is pending");
        self.moved += 1;
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
        let (fired, connection) = (self.fired.clone(), connection as u32);
        let fire = move || fired.lock().expect("a lock").push((connection, wait));
        let timer = self.timer.schedule(TICK * wait.ticks() as u32, fire).expect("the timer is not shut down");
        timer.cancel_on_drop()
    }
}
