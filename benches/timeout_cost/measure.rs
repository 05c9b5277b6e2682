//! Measures one contender under one load.

use std::time::{Duration, Instant};

use corewheel::Timer;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use crate::contender::Contender;
use crate::load::{Client, Load, UNANSWERED};
use crate::system::cpu_time;

/// No request takes as long.
const LIMIT: Duration = Duration::from_secs(30);
/// Limit of a request that is not answered.
const SHORT: Duration = Duration::from_millis(1);
/// No timeout is as late.
const HANG: Duration = Duration::from_secs(10);

/// A contender under a load.
pub struct Case {
    pub load: &'static str,
    pub contender: &'static str,
    pub check: fn(),
    /// Lets each client make a number of steps, on a number of workers.
    pub turn: fn(usize, u64) -> Turn,
}

impl Case {
    pub fn new<L: Load, C: Contender>() -> Self {
        Self { load: L::NAME, contender: C::NAME, check: check::<L, C>, turn: turn::<L, C> }
    }
}

/// The figures of one turn.
pub struct Turn {
    pub wall: Duration,
    pub requests_a_second: f64,
    /// CPU time of the process for each request.
    pub cpu_nanos: f64,
    /// Number of timers that corewheel armed for each request; `None` if it armed none.
    pub armed: Option<f64>,
}

fn runtime(workers: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(workers).enable_all().build().expect("the runtime starts")
}

fn turn<L: Load, C: Contender>(workers: usize, steps: u64) -> Turn {
    runtime(workers).block_on(async {
        let clients = L::start::<C>(LIMIT).await;
        let clients = all_step(clients, steps.div_ceil(10)).await;
        let requests = (clients.len() as u64 * steps * L::STEP) as f64;
        let armed = Timer::global().stats().scheduled;
        let cpu = cpu_time();
        let start = Instant::now();
        all_step(clients, steps).await;
        let wall = start.elapsed();
        let armed = Timer::global().stats().scheduled - armed;
        Turn {
            wall,
            requests_a_second: requests / wall.as_secs_f64(),
            cpu_nanos: (cpu_time() - cpu).as_nanos() as f64 / requests,
            armed: (armed > 0).then_some(armed as f64 / requests),
        }
    })
}

/// Lets all clients make steps at the same time.
async fn all_step<C: Client>(clients: Vec<C>, steps: u64) -> Vec<C> {
    let step = |mut client: C| async move {
        for request in 0..steps {
            assert!(client.step(request).await, "the answer comes in time");
        }
        client
    };
    clients.into_iter().map(step).collect::<JoinSet<_>>().join_all().await
}

/// Checks that a request which the server does not answer ends when its limit has passed.
fn check<L: Load, C: Contender>() {
    runtime(2).block_on(async {
        let start = Instant::now();
        let mut client = L::start::<C>(SHORT).await.pop().expect("the load has clients");
        let answered = tokio::time::timeout(HANG, client.step(UNANSWERED)).await;
        assert_eq!(answered, Ok(false), "{}, {}: the timeout ends the request", L::NAME, C::NAME);
        assert!(start.elapsed() >= SHORT, "{}, {}: not before the limit", L::NAME, C::NAME);
    });
}
