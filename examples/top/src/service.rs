//! The timer, and the server and the load that use it.

use std::error::Error;
use std::num::NonZero;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use corewheel::{Executor, SlowCallback, Timer};

use crate::args::Args;
use crate::crew::{self, Record};
use crate::frame::View;
use crate::history::{History, Reading};
use crate::plan::Plan;
use crate::server::Server;
use crate::timeouts::Timeouts;

const TIMEOUTS: Timeouts = Timeouts { idle: Duration::from_secs(4), request: Duration::from_secs(2) };
/// Mean pause between an answer and the next request.
const PAUSE: Duration = Duration::from_millis(250);
/// Time from which a frame names a callback.
const SLOW: Duration = Duration::from_millis(20);
/// How long, and how often, the callbacks of `--block` block.
const BLOCK: Duration = Duration::from_millis(200);
const BLOCK_EVERY: Duration = Duration::from_secs(1);

/// A timer under load.
pub struct Service {
    timer: Timer,
    record: Arc<Record>,
    workers: usize,
    connections: usize,
    /// The last callback that took long.
    slow: Arc<Mutex<Option<SlowCallback>>>,
    _server: Server,
}

impl Service {
    pub fn start(args: &Args) -> Result<Self, Box<dyn Error>> {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let workers = args.workers.unwrap_or(cores);
        let shards = args.shards.unwrap_or(cores);
        let slow = Arc::<Mutex<Option<SlowCallback>>>::default();
        let last = slow.clone();
        let report = move |slow| *last.lock().expect("no thread panics while it stores") = Some(slow);
        let builder = Timer::builder().shards(shards).executor(Executor::Pool { threads: workers });
        let timer = builder.on_slow(SLOW, report).build()?;
        let server = Server::start(&timer, TIMEOUTS, args.threads)?;
        for _ in 0..args.block {
            timer.schedule_at_fixed_rate(BLOCK_EVERY, BLOCK_EVERY, || thread::sleep(BLOCK))?;
        }
        let plan = Plan {
            server: server.address(),
            connections: args.connections,
            stall: args.stall,
            time: Duration::ZERO,
            pause: PAUSE,
            late: TIMEOUTS.idle,
            timeouts: TIMEOUTS,
        };
        let record = Arc::new(Record::default());
        crew::start(plan, &record)?;
        Ok(Self { timer, record, workers, connections: args.connections, slow, _server: server })
    }

    /// Reads the timer's counts. Fails if a part of the load has failed.
    pub fn read(&self) -> Result<Reading, String> {
        if let Some(failure) = self.record.failure.lock().expect("no thread panics while it stores").take() {
            return Err(failure);
        }
        let answers = self.record.answers.load(Ordering::Relaxed);
        Ok(Reading { at: self.timer.now(), answers, stats: self.timer.stats() })
    }

    /// Returns what a frame shows after these readings.
    pub fn view<'a>(&self, history: &'a History) -> View<'a> {
        let slow = self.slow.lock().expect("no thread panics while it stores").clone();
        let census = self.timer.census();
        View { history, workers: self.workers, connections: self.connections, slow, census }
    }
}
