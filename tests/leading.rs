//! The thread that drives the shards: under load, beside callbacks that block, and as the leader of two shards.
#![cfg(all(feature = "std", target_os = "linux"))]

mod common;

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use common::*;
use corewheel::{Executor, Sleep, Timer, TimerHandle, WeakTimer};

/// The timers of these tests run one at a time: together they would keep the leader too busy.
static TURN: Mutex<()> = Mutex::new(());

/// A timer whose callbacks run all the time.
struct Busy {
    timer: Timer,
    runs: Arc<AtomicUsize>,
    stream: Vec<TimerHandle>,
}

/// Records the thread on which it was called.
#[derive(Default)]
struct CalledOn(Mutex<Option<String>>);

impl CalledOn {
    fn take(&self) -> Option<String> {
        self.0.lock().unwrap().take()
    }
}

impl Wake for CalledOn {
    fn wake(self: Arc<Self>) {
        *self.0.lock().unwrap() = thread::current().name().map(str::to_owned);
    }
}

impl Busy {
    fn new(name: &'static str, threads: usize) -> Self {
        let executor = Executor::Pool { threads };
        let timer = Timer::builder().shards(1).executor(executor).thread_name(name).build().unwrap();
        let runs = Arc::default();
        let stream = (0..3).map(|_| timer.schedule_at_fixed_rate(MS, MS, counting(&runs)).unwrap()).collect();
        Self { timer, runs, stream }
    }

    fn without_stream(timer: &Timer) -> Self {
        Self { timer: timer.clone(), runs: Arc::default(), stream: Vec::new() }
    }

    /// Returns the name of the thread that drives, which is the one that wakes tasks.
    fn driver(&self) -> String {
        let (_sleep, called) = self.asleep();
        let mut name = None;
        eventually("the task is woken", || {
            name = called.take();
            name.is_some()
        });
        name.unwrap()
    }

    /// Returns a task that sleeps.
    fn asleep(&self) -> (Sleep, Arc<CalledOn>) {
        let called = Arc::<CalledOn>::default();
        let waker = Waker::from(called.clone());
        loop {
            let mut sleep = self.timer.sleep(5 * MS);
            // The sleep may already be over when this thread gets to poll it.
            if Pin::new(&mut sleep).poll(&mut Context::from_waker(&waker)).is_pending() {
                return (sleep, called);
            }
        }
    }

    /// Schedules a callback that waits for the gate, and waits until it has started.
    fn block(&self, gate: &Gate) {
        let begun = Gate::default();
        let gate = gate.clone();
        let begin = begun.clone();
        let block = move || {
            begin.open();
            gate.pass();
        };
        self.timer.schedule(MS, block).unwrap();
        begun.pass();
    }
}

/// Promise: no starvation by a neighbour.
#[test]
fn a_callback_that_blocks_blocks_nothing_else() {
    let _turn = TURN.lock();
    for threads in [1, 2] {
        let busy = Busy::new("lead-block", threads);
        for _ in 0..3 {
            let gate = Gate::default();
            busy.block(&gate);
            let (sender, receiver) = channel();
            busy.timer.schedule(MS, move || sender.send(()).unwrap()).unwrap();
            wait_for(&receiver);
            let before = busy.runs.load(Ordering::SeqCst);
            eventually("the stream flows", || busy.runs.load(Ordering::SeqCst) > before + 30);
            gate.open();
        }
    }
}

/// No other timer is due, so no worker finds these callbacks by chance.
/// Promise: no starvation by a neighbour.
#[test]
fn a_batch_that_blocks_is_assisted() {
    let _turn = TURN.lock();
    for _ in 0..5 {
        let busy = Busy::new("lead-assist", 2);
        // Of two callbacks that are due together, the first waits for the second.
        let gate = Gate::default();
        let at = busy.timer.now() + 5 * MS;
        let stream = Arc::new(Mutex::new(busy.stream));
        for _ in 0..2 {
            let (gate, stream) = (gate.clone(), stream.clone());
            let meet = move || {
                let first = mem::take(&mut *stream.lock().unwrap());
                if first.is_empty() {
                    return gate.open();
                }
                first.iter().for_each(|timer| _ = timer.cancel());
                gate.pass();
            };
            busy.timer.schedule_at(at, meet).unwrap();
        }
        eventually("both callbacks have run", || busy.timer.is_empty());
        assert_eq!(busy.timer.stats().panicked, 0, "the idle worker did not assist");
    }
}

/// Promise: no starvation by a neighbour.
#[test]
fn sleeps_complete_in_time_while_every_worker_is_blocked() {
    let _turn = TURN.lock();
    let builder = Timer::builder().shards(1).executor(Executor::Pool { threads: 1 }).max_extra_threads(0);
    let name = "lead-all";
    let timer = builder.thread_name(name).build().unwrap();
    let runs = Arc::default();
    let stream = (0..3).map(|_| timer.schedule_at_fixed_rate(MS, MS, counting(&runs)).unwrap()).collect();
    let busy = Busy { timer, runs, stream };
    let gate = Gate::default();
    busy.block(&gate);
    for _ in 0..3 {
        assert_eq!(busy.driver(), "lead-all-0");
    }
    let before = busy.runs.load(Ordering::SeqCst);
    gate.open();
    eventually("the stream flows again", || busy.runs.load(Ordering::SeqCst) > before + 30);
}

/// Promise: no starvation by a neighbour.
#[test]
fn a_busy_timer_can_be_shut_down_from_anywhere() {
    /// Shuts the timer down when it is called, and opens the gate.
    struct ShutsDown(Mutex<Option<Timer>>, Gate);

    impl Wake for ShutsDown {
        fn wake(self: Arc<Self>) {
            if let Some(timer) = self.0.lock().unwrap().take() {
                assert_eq!(timer.shutdown().len(), 4);
                self.1.open();
            }
        }
    }

    let _turn = TURN.lock();
    for from in ["outside", "the last clone", "a callback", "a waker"] {
        let busy = Busy::new("lead-shut", 2);
        let far = busy.timer.schedule(HOUR, || ()).unwrap();
        let timer = busy.timer.clone();
        let done = Gate::default();
        match from {
            "outside" => {
                assert_eq!(timer.shutdown().len(), 4);
                done.open();
            }
            "a callback" => {
                let (inside, done) = (timer.clone(), done.clone());
                let shut_down = move || {
                    assert_eq!(inside.shutdown().len(), 4);
                    done.open();
                };
                timer.schedule(MS, shut_down).unwrap();
            }
            "a waker" => {
                let waker = Waker::from(Arc::new(ShutsDown(Mutex::new(Some(timer.clone())), done.clone())));
                let mut sleep = timer.sleep(100 * MS);
                assert!(Pin::new(&mut sleep).poll(&mut Context::from_waker(&waker)).is_pending());
                done.pass();
            }
            _ => done.open(),
        }
        done.pass();
        drop(timer);
        let stream = busy.stream;
        in_time(from, move || drop(busy.timer));
        eventually("the threads have ended", || threads_named("lead-shut") == 0);
        assert!(!far.is_pending() && stream.iter().all(|timer| !timer.is_pending()), "{from}");
    }
}

/// Three threads schedule faster than one can link.
#[test]
fn a_burst_of_later_timers_does_not_hold_back_what_is_due() {
    const BURST: usize = 4_000_000;
    let _turn = TURN.lock();
    let timer = Timer::builder().shards(1).executor(Executor::Pool { threads: 1 }).build().unwrap();
    let scheduled = AtomicUsize::new(0);
    let fired = Arc::new(AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !fired.load(Ordering::SeqCst) && scheduled.fetch_add(100, Ordering::SeqCst) < BURST {
                    (0..100).for_each(|ms| _ = timer.schedule(HOUR + ms * MS, || ()).unwrap());
                }
            });
        }
        eventually("the burst has begun", || scheduled.load(Ordering::SeqCst) > BURST / 16);
        let fires = fired.clone();
        timer.schedule(MS, move || fires.store(true, Ordering::SeqCst)).unwrap();
    });
    assert!(scheduled.into_inner() < BURST, "the callback waited for the whole burst");
}

/// Promise: tickless.
#[test]
fn a_timer_without_load_wakes_no_thread() {
    let _turn = TURN.lock();
    let busy = Busy::new("lead-rest", 2);
    busy.stream.iter().for_each(|timer| assert!(timer.cancel()));
    thread::sleep(300 * MS);
    let before = sleeps_of("lead-rest");
    thread::sleep(300 * MS);
    assert_eq!(sleeps_of("lead-rest"), before);
}

/// Returns a function that names the thread which wakes the tasks of a thread whose home is the second shard.
fn driver_of_the_second_shard(timer: &Timer) -> impl Fn() -> String {
    let _first = timer.schedule(HOUR, || ()).unwrap();
    let busy = Busy::without_stream(timer);
    let ((ask, asked), (answer, answers)) = (channel(), channel());
    thread::spawn(move || asked.iter().for_each(|()| answer.send(busy.driver()).unwrap()));
    move || {
        ask.send(()).unwrap();
        wait_for(&answers)
    }
}

fn two_shards(name: &str) -> Timer {
    let builder = Timer::builder().tick(MS / 10).shards(2).executor(Executor::Pool { threads: 1 });
    builder.thread_name(name).build().unwrap()
}

/// A waker that takes a while, and then arms its sleep anew. The next of several such sleeps is over by then.
struct Spins {
    timer: WeakTimer,
    sleep: Mutex<Option<Sleep>>,
    ends: Arc<AtomicBool>,
}

impl Spins {
    /// Keeps the thread that leads busy until `ends` is set.
    fn start(timer: &Timer) -> Arc<AtomicBool> {
        let ends = Arc::<AtomicBool>::default();
        for _ in 0..2 {
            Arc::new(Self { timer: timer.downgrade(), sleep: Mutex::default(), ends: ends.clone() }).arm(50 * MS);
        }
        ends
    }

    /// Stops when the timer is gone, or `ends` is set. A thread of the program's must have stored the sleep after this delay.
    fn arm(self: Arc<Self>, delay: Duration) {
        let waker = Waker::from(self.clone());
        let mut is_pending = false;
        while let Some(timer) = self.timer.upgrade().filter(|_| !is_pending && !self.ends.load(Ordering::SeqCst)) {
            let mut sleep = timer.sleep(delay);
            is_pending = Pin::new(&mut sleep).poll(&mut Context::from_waker(&waker)).is_pending();
            // Both are dropped after the lock: a poll may call this waker.
            let _last = self.sleep.lock().unwrap().replace(sleep);
        }
    }
}

impl Wake for Spins {
    fn wake(self: Arc<Self>) {
        spin(MS / 2);
        self.arm(MS / 10);
    }
}

/// The leader has wakers to call without a pause, and then none.
#[test]
fn a_leader_drives_both_shards_while_it_has_little_to_do() {
    let _turn = TURN.lock();
    for _ in 0..3 {
        let timer = two_shards("lead-much");
        let second = driver_of_the_second_shard(&timer);
        let first = Busy::without_stream(&timer);
        let are_folded = || first.driver() == second();
        let have_threads = || {
            let (names, again) = ([first.driver(), second()], [first.driver(), second()]);
            names == again && names[0] != names[1]
        };
        eventually("one thread drives both shards", are_folded);
        let ends = Spins::start(&timer);
        eventually("each shard has a thread", have_threads);
        ends.store(true, Ordering::SeqCst);
        eventually("one thread drives both shards again", are_folded);
    }
}

/// A waker that records the thread which calls it, and waits for the second gate.
#[derive(Default)]
struct Blocks(CalledOn, [Gate; 2]);

impl Wake for Blocks {
    fn wake(self: Arc<Self>) {
        let [begun, ends] = &self.1;
        *self.0.0.lock().unwrap() = thread::current().name().map(str::to_owned);
        begun.open();
        ends.pass();
    }
}

/// Schedules on a thread whose home is the second shard. That shard's own thread is inside a waker when the leader, which
/// has much to do, gets the shard.
/// Promise: no starvation by a neighbour.
#[test]
fn a_thread_that_a_waker_blocks_gets_no_shard() {
    let _turn = TURN.lock();
    let timer = two_shards("lead-blocked");
    let _first = timer.schedule(HOUR, || ()).unwrap();
    let ends = Spins::start(&timer);
    thread::scope(|scope| {
        let on_the_second_shard = || {
            let second = Busy::without_stream(&timer);
            let blocks = loop {
                eventually("the second shard has a thread", || second.driver() == "lead-blocked-1");
                let blocks = Arc::<Blocks>::default();
                let mut sleep = timer.sleep(MS);
                let waker = Waker::from(blocks.clone());
                if Pin::new(&mut sleep).poll(&mut Context::from_waker(&waker)).is_ready() {
                    continue;
                }
                blocks.1[0].pass();
                if blocks.0.take().as_deref() == Some("lead-blocked-1") {
                    break blocks;
                }
                // The leader has got the shard in between.
                blocks.1[1].open();
            };
            drop(timer.take_driver().unwrap());
            let begun = Instant::now();
            while begun.elapsed() < 500 * MS {
                assert_eq!(second.driver(), "lead-blocked-0");
            }
            blocks.1[1].open();
        };
        scope.spawn(on_the_second_shard).join().unwrap();
    });
    ends.store(true, Ordering::SeqCst);
}
