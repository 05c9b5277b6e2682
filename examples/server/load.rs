//! The load: threads with many connections each, of which some stall.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use corewheel::Wheel;
use fastrand::Rng;
use mio::{Events, Poll, Token};

use crate::client::{Client, Habit, Heard, Outcome};
use crate::timeouts::Timeouts;

/// How many connections are opened at once, for the server to accept before the next.
const BURST: usize = 32;

/// What the load is to be.
#[derive(Clone, Copy)]
pub struct Plan {
    pub server: SocketAddr,
    pub connections: usize,
    /// In percent.
    pub stall: u8,
    /// Within which the connections stall.
    pub time: Duration,
    /// Between an answer and the next request, on average.
    pub pause: Duration,
    /// How late a close may be.
    pub late: Duration,
    pub timeouts: Timeouts,
}

impl Plan {
    /// Spreads those that stall evenly, and each way to do so among them.
    fn habit(&self, number: usize) -> Habit {
        let share = number * usize::from(self.stall);
        if share % 100 < usize::from(self.stall) {
            Habit::STALLING[share / 100 % Habit::STALLING.len()]
        } else {
            Habit::Steady
        }
    }
}

/// What has happened so far.
#[derive(Default)]
pub struct Tally {
    pub answers: AtomicU64,
    /// The longest that a thread of the load was late for what it had to do, in milliseconds.
    pub held_up: AtomicU64,
}

/// A running load.
pub struct Load {
    tally: Arc<Tally>,
    threads: Vec<JoinHandle<io::Result<Vec<Outcome>>>>,
}

impl Load {
    /// Opens all connections before the first can stall: while none is closed, no two have the same address.
    pub fn start(plan: Plan, threads: usize) -> Result<Self, Box<dyn Error>> {
        let tally = Arc::new(Tally::default());
        let opening = Instant::now();
        let open = |first| Worker::open(plan, first, threads, tally.clone());
        let workers: Vec<_> = (0..threads).map(open).collect::<io::Result<_>>()?;
        let taken = opening.elapsed();
        if taken > plan.timeouts.idle / 2 {
            return Err(format!("it took {taken:.1?} to connect: --idle-timeout must be at least twice that").into());
        }
        let spawn = |worker: Worker| thread::Builder::new().name("load".to_owned()).spawn(|| worker.run());
        let threads = workers.into_iter().map(spawn).collect::<io::Result<_>>()?;
        Ok(Self { tally, threads })
    }

    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    pub fn is_finished(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    pub fn finish(self) -> io::Result<Vec<Outcome>> {
        let mut outcomes = Vec::new();
        for thread in self.threads {
            outcomes.extend(thread.join().expect("a thread of the load does not panic")?);
        }
        Ok(outcomes)
    }
}

struct Worker {
    plan: Plan,
    tally: Arc<Tally>,
    poll: Poll,
    clients: Vec<Client>,
    /// Which client acts when, in milliseconds since the start.
    wheel: Wheel<usize>,
    start: Instant,
    rng: Rng,
}

impl Worker {
    /// Opens every `step`th connection, beginning with the `first`.
    fn open(plan: Plan, first: usize, step: usize, tally: Arc<Tally>) -> io::Result<Self> {
        let poll = Poll::new()?;
        let mut rng = Rng::with_seed(first as u64);
        let mut clients = Vec::new();
        for number in (first..plan.connections).step_by(step) {
            let stall_after = plan.time.mul_f64(rng.f64());
            let token = Token(clients.len());
            clients.push(Client::connect(&plan, plan.habit(number), stall_after, poll.registry(), token)?);
            if clients.len() % BURST == 0 {
                thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(Self { plan, tally, poll, clients, wheel: Wheel::new(0), start: Instant::now(), rng })
    }

    /// Serves the clients to the end, and closes those that are left.
    fn run(mut self) -> io::Result<Vec<Outcome>> {
        self.start = Instant::now();
        let mut events = Events::with_capacity(1024);
        while !self.is_done() {
            match self.poll.poll(&mut events, Some(self.pause())) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            for event in &events {
                self.hear(event.token());
            }
            self.advance();
        }
        Ok(self.clients.iter().map(Client::outcome).collect())
    }

    /// Whether all that stall have been closed, or the last of them should have been long ago.
    fn is_done(&self) -> bool {
        let elapsed = self.start.elapsed();
        let Plan { time, timeouts, late, .. } = self.plan;
        elapsed >= time && !self.clients.iter().any(Client::is_owed_a_close)
            || elapsed >= time + timeouts.idle + 2 * late
    }

    /// How long to wait for events.
    fn pause(&self) -> Duration {
        let next = self.wheel.next_deadline().map_or(self.plan.time, Duration::from_millis);
        next.saturating_sub(self.start.elapsed()).min(Duration::from_millis(100))
    }

    fn hear(&mut self, Token(number): Token) {
        let heard = self.clients[number].hear();
        if heard == Heard::Answer {
            self.tally.answers.fetch_add(1, Ordering::Relaxed);
        }
        if heard != Heard::Nothing {
            let pause = self.plan.pause.mul_f64(0.5 + self.rng.f64());
            self.act_after(pause, number);
        }
    }

    fn act_after(&mut self, delay: Duration, number: usize) {
        let at = self.start.elapsed() + delay;
        self.wheel.insert(at.as_millis() as u64, number);
    }

    /// Has those act whose time has come.
    fn advance(&mut self) {
        let elapsed = self.start.elapsed();
        let now = elapsed.as_millis() as u64;
        let mut due = Vec::new();
        self.wheel.advance(now, |at, number| {
            self.tally.held_up.fetch_max(now - at, Ordering::Relaxed);
            due.push(number);
        });
        for number in due {
            if let Some(delay) = self.clients[number].act(elapsed, &mut self.rng) {
                self.act_after(delay, number);
            }
        }
    }
}
