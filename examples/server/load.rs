//! The load: threads with many connections each, of which some stall.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use corewheel::Wheel;
use fastrand::Rng;
use mio::{Events, Poll, Token};

use crate::client::{Client, Habit, Outcome, Received};
use crate::plan::Plan;

/// Number of connections that the load opens before it pauses, so that the server can accept them.
const BURST: usize = 32;

impl Plan {
    /// Returns the habit of a connection. Spreads the stalling ones evenly over all, and the habits evenly over these.
    fn habit(&self, number: usize) -> Habit {
        let share = number * usize::from(self.stall);
        if share % 100 < usize::from(self.stall) {
            Habit::STALLING[share / 100 % Habit::STALLING.len()]
        } else {
            Habit::Steady
        }
    }
}

/// Counts of the load so far.
#[derive(Default)]
pub struct Tally {
    pub answers: AtomicU64,
    /// Maximum lateness of a step of the load itself, in milliseconds.
    pub late: AtomicU64,
}

/// A running load.
pub struct Load {
    tally: Arc<Tally>,
    threads: Vec<JoinHandle<io::Result<Vec<Outcome>>>>,
}

impl Load {
    /// Opens all connections before the first can stall. While all are open, no two have the same address.
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

    /// Returns a load that these threads drive, and count in `tally`.
    pub fn driven_by(threads: Vec<JoinHandle<io::Result<Vec<Outcome>>>>, tally: Arc<Tally>) -> Self {
        Self { tally, threads }
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
    /// Clients by the time of their next step, in milliseconds since the start.
    wheel: Wheel<usize>,
    start: Instant,
    rng: Rng,
}

impl Worker {
    /// Opens every `step`th connection, starting with number `first`.
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

    /// Drives the clients to the end, and closes the remaining connections.
    fn run(mut self) -> io::Result<Vec<Outcome>> {
        self.start = Instant::now();
        let mut events = Events::with_capacity(1024);
        while !self.is_done() {
            match self.poll.poll(&mut events, Some(self.pause())) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            for event in &events {
                self.receive(event.token());
            }
            self.advance();
        }
        Ok(self.clients.iter().map(Client::outcome).collect())
    }

    /// Returns whether the server has closed all stalling connections, or is far too late for it.
    fn is_done(&self) -> bool {
        let elapsed = self.start.elapsed();
        let Plan { time, timeouts, late, .. } = self.plan;
        elapsed >= time && !self.clients.iter().any(Client::awaits_close) || elapsed >= time + timeouts.idle + 2 * late
    }

    /// Returns the time to wait for events.
    fn pause(&self) -> Duration {
        let next = self.wheel.next_deadline().map_or(self.plan.time, Duration::from_millis);
        next.saturating_sub(self.start.elapsed()).min(Duration::from_millis(100))
    }

    fn receive(&mut self, Token(number): Token) {
        let received = self.clients[number].receive();
        if received == Received::Answer {
            self.tally.answers.fetch_add(1, Ordering::Relaxed);
        }
        if received != Received::Nothing {
            let pause = self.plan.pause.mul_f64(0.5 + self.rng.f64());
            self.act_after(pause, number);
        }
    }

    fn act_after(&mut self, delay: Duration, number: usize) {
        let at = self.start.elapsed() + delay;
        self.wheel.insert(at.as_millis() as u64, number);
    }

    /// Lets the clients whose time has come make their next step.
    fn advance(&mut self) {
        let elapsed = self.start.elapsed();
        let now = elapsed.as_millis() as u64;
        let mut due = Vec::new();
        self.wheel.advance(now, |at, number| {
            self.tally.late.fetch_max(now - at, Ordering::Relaxed);
            due.push(number);
        });
        for number in due {
            if let Some(delay) = self.clients[number].act(elapsed, &mut self.rng) {
                self.act_after(delay, number);
            }
        }
    }
}
