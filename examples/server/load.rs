//! The load: threads with many connections each, of which some stall.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use corewheel::Wheel;
use fastrand::Rng;
use mio::{Events, Poll, Token};

use crate::client::{self, Client, Habit, Heard, Outcome};
use crate::timeouts::Timeouts;

/// How many connections a thread opens in a tick.
const OPENED_AT_ONCE: usize = 4;

/// What the load is to be.
#[derive(Clone, Copy)]
pub struct Plan {
    pub server: SocketAddr,
    pub connections: usize,
    /// In percent.
    pub stall: u8,
    /// Within which the connections stall.
    pub time: Duration,
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
    pub fn start(plan: Plan, threads: usize) -> io::Result<Self> {
        let tally = Arc::new(Tally::default());
        let start = |number| {
            let numbers = (number..plan.connections).step_by(threads);
            let worker = Worker::new(plan, numbers.map(|number| plan.habit(number)).collect(), number, tally.clone())?;
            thread::Builder::new().name(format!("load-{number}")).spawn(|| worker.run())
        };
        let threads = (0..threads).map(start).collect::<io::Result<_>>()?;
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

enum Due {
    Open,
    Act(usize),
}

struct Worker {
    plan: Plan,
    habits: Vec<Habit>,
    tally: Arc<Tally>,
    poll: Poll,
    /// When which client acts, in milliseconds since the start.
    wheel: Wheel<Due>,
    start: Instant,
    rng: Rng,
    clients: Vec<Client>,
}

impl Worker {
    fn new(plan: Plan, habits: Vec<Habit>, seed: usize, tally: Arc<Tally>) -> io::Result<Self> {
        let mut wheel = Wheel::new(0);
        wheel.insert(0, Due::Open);
        Ok(Self {
            plan,
            habits,
            tally,
            poll: Poll::new()?,
            wheel,
            start: Instant::now(),
            rng: Rng::with_seed(seed as u64),
            clients: Vec::new(),
        })
    }

    /// Serves the clients to the end, and closes those that are left.
    fn run(mut self) -> io::Result<Vec<Outcome>> {
        let mut events = Events::with_capacity(1024);
        while !self.is_done() {
            match self.poll.poll(&mut events, Some(self.pause())) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            for event in &events {
                self.hear(event.token());
            }
            self.advance()?;
        }
        Ok(self.clients.iter().map(Client::outcome).collect())
    }

    /// Whether all that stall have been closed, or the last of them should have been long ago.
    fn is_done(&self) -> bool {
        let elapsed = self.start.elapsed();
        let Plan { time, timeouts, late, .. } = self.plan;
        elapsed >= time && self.clients.len() == self.habits.len() && !self.clients.iter().any(Client::is_owed_a_close)
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
            let delay = client::thought(&mut self.rng);
            self.act_after(delay, number);
        }
    }

    fn act_after(&mut self, delay: Duration, number: usize) {
        let at = self.start.elapsed() + delay;
        self.wheel.insert(at.as_millis() as u64, Due::Act(number));
    }

    /// Does what is due by now.
    fn advance(&mut self) -> io::Result<()> {
        let now = self.start.elapsed().as_millis() as u64;
        let mut due = Vec::new();
        self.wheel.advance(now, |at, what| {
            self.tally.held_up.fetch_max(now - at, Ordering::Relaxed);
            due.push(what);
        });
        for what in due {
            match what {
                Due::Open => self.open(now)?,
                Due::Act(number) => {
                    if let Some(delay) = self.clients[number].act(&mut self.rng) {
                        self.act_after(delay, number);
                    }
                }
            }
        }
        Ok(())
    }

    /// Opens the next connections.
    fn open(&mut self, now: u64) -> io::Result<()> {
        for number in (self.clients.len()..self.habits.len()).take(OPENED_AT_ONCE) {
            let stall_at = self.start + self.plan.time.mul_f64(self.rng.f64());
            let Plan { server, timeouts, .. } = self.plan;
            let (habit, registry) = (self.habits[number], self.poll.registry());
            self.clients.push(Client::connect(server, habit, stall_at, timeouts, registry, Token(number))?);
        }
        if self.clients.len() < self.habits.len() {
            self.wheel.insert(now + 1, Due::Open);
        }
        Ok(())
    }
}
