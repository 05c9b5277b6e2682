//! The random configuration of a round's timer.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use corewheel::rayon::{ThreadPool, ThreadPoolBuilder};
use corewheel::{BuildError, Execute, Executor, Timer};
use fastrand::Rng;

type Job = Box<dyn FnOnce() + Send>;
/// The name of an executor, and its constructor.
type Named = (&'static str, fn() -> Executor);

const TICKS: [u64; 5] = [1, 20, 100, 1000, 5000];
const WHEELS: [&[usize]; 6] = [&[64], &[2], &[3, 3, 3], &[60, 60, 12], &[256, 16], &[10_000]];
const EXECUTORS: [Named; 8] = [
    ("the default pool", Executor::default),
    ("a pool of 1", || Executor::Pool { threads: 1 }),
    ("a pool of 3", || Executor::Pool { threads: 3 }),
    ("the caller's pool", || Executor::Rayon(POOL.clone())),
    ("the global pool", || Executor::RayonGlobal),
    ("inline", || Executor::Inline),
    ("a queue", || Executor::Custom(Arc::new(Queue))),
    ("at once", || Executor::Custom(Arc::new(AtOnce))),
];

static POOL: LazyLock<Arc<ThreadPool>> =
    LazyLock::new(|| Arc::new(ThreadPoolBuilder::new().num_threads(2).build().expect("two threads can be started")));

/// Two threads that take jobs from a queue.
static QUEUE: LazyLock<mpsc::Sender<Job>> = LazyLock::new(|| {
    let (sender, receiver) = mpsc::channel::<Job>();
    let receiver = Arc::new(Mutex::new(receiver));
    for _ in 0..2 {
        let receiver = receiver.clone();
        thread::spawn(move || {
            loop {
                let job = receiver.lock().expect("no thread panics while it has the lock").recv();
                job.expect("the sender is never dropped")();
            }
        });
    }
    sender
});

struct Queue;

impl Execute for Queue {
    fn execute(&self, job: Job) {
        QUEUE.send(job).expect("the threads of the queue never end");
    }
}

struct AtOnce;

impl Execute for AtOnce {
    fn execute(&self, job: Job) {
        job();
    }
}

pub struct Setting {
    pub tick: Duration,
    shards: usize,
    wheel: &'static [usize],
    executor: Named,
    pub max_pending: Option<usize>,
    pin_cores: bool,
    /// Number of loops of the program's that drive shards.
    pub loops: usize,
}

impl Setting {
    pub fn random(random: &mut Rng) -> Self {
        let mut of = |length| random.usize(..length);
        Self {
            tick: Duration::from_micros(TICKS[of(TICKS.len())]),
            shards: 1 + of(4),
            wheel: WHEELS[of(WHEELS.len())],
            executor: EXECUTORS[of(EXECUTORS.len())],
            max_pending: (of(4) == 0).then(|| 1 + of(2000)),
            pin_cores: of(2) == 0,
            loops: of(4).saturating_sub(1),
        }
    }

    /// Returns the same setting without a limit of pending timers.
    pub fn unlimited(self) -> Self {
        Self { max_pending: None, ..self }
    }

    /// Starts a timer with this setting, which counts its panics in `panics`.
    pub fn start(&self, panics: &Arc<AtomicU64>) -> Result<Timer, BuildError> {
        let panics = panics.clone();
        let builder = Timer::builder()
            .tick(self.tick)
            .shards(self.shards)
            .wheel(self.wheel)
            .executor(self.executor.1())
            .pin_cores(self.pin_cores)
            .thread_name("storm")
            .on_panic(move |_| _ = panics.fetch_add(1, Ordering::Relaxed));
        match self.max_pending {
            Some(limit) => builder.max_pending(limit),
            None => builder,
        }
        .build()
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tick, shards, wheel, executor: (executor, _), max_pending, pin_cores, loops } = self;
        write!(f, "{shards} shards, {loops} loops, tick {tick:?}, wheel {wheel:?}")?;
        write!(f, ", executor {executor}, pinned {pin_cores}")?;
        max_pending.map_or(Ok(()), |limit| write!(f, ", at most {limit} pending"))
    }
}
