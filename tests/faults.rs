//! Faults from outside: the process is stopped, starved or forked, its cores change, and its threads panic.
#![cfg(all(feature = "std", target_os = "linux"))]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::panic::{self, AssertUnwindSafe};
use std::pin::Pin;
use std::process::{self, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use common::*;
use corewheel::{CancelOnDrop, DelayKey, DelayQueue, Driver, Executor, Sleep, Timer, TimerHandle};
use fastrand::Rng;
use futures::executor::block_on;
use futures::future::join_all;
use nix::libc;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::signal::{Signal, kill, raise};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};

/// Printed by a child before it stops itself, with the milliseconds after which it is to be continued; and when it has
/// passed.
const STOP: &str = "stopped for";
const PASSED: &str = "the child has passed";

/// The system's allocator, in which a thread pauses at its next allocation if it has set [`PAUSES`].
struct Pausing;

thread_local! {
    static PAUSES: Cell<bool> = const { Cell::new(false) };
}

static HAS_PAUSED: AtomicBool = AtomicBool::new(false);

// SAFETY: every call is passed on to the system's allocator.
unsafe impl GlobalAlloc for Pausing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if PAUSES.replace(false) {
            HAS_PAUSED.store(true, Ordering::SeqCst);
            thread::sleep(100 * MS);
        }
        // SAFETY: the caller upholds the contract of this function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract of this function.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Pausing = Pausing;

/// A run of a callback: its deadline, and when it ran.
type Run = (Instant, Instant);

/// The runs of many timers, in order.
#[derive(Clone, Default)]
struct Runs(Arc<Mutex<Vec<Run>>>);

impl Runs {
    fn schedule(&self, timer: &Timer, deadline: Instant) -> TimerHandle {
        let runs = self.clone();
        timer.schedule_at(deadline, move || runs.record(deadline)).unwrap()
    }

    fn record(&self, deadline: Instant) {
        self.0.lock().unwrap().push((deadline, Instant::now()));
    }

    fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// Asserts that no run was early, and that one whose deadline is over 1 ms after another's also ran after it.
    #[track_caller]
    fn assert_in_order(&self) {
        let runs = self.0.lock().unwrap();
        assert_eq!(runs.iter().find(|(deadline, ran)| ran < deadline), None, "a run was early");
        let mut latest = runs[0].0;
        for &(deadline, _) in &*runs {
            assert!(deadline + MS >= latest, "{:?} out of order", latest - deadline);
            latest = latest.max(deadline);
        }
    }
}

/// Returns a timer with one shard, which hands over its callbacks one by one, in the order in which they are recorded.
fn one_by_one() -> Timer {
    Timer::builder().shards(1).executor(Executor::Custom(Arc::new(RunInPlace))).build().unwrap()
}

#[track_caller]
fn assert_passed(success: bool, text: &str) {
    assert!(success && text.contains(PASSED), "{text}");
}

/// Runs `test`, which forks, in a process of its own: the test of this name.
fn in_a_process(name: &'static str, test: impl FnOnce()) {
    if is_child(name) {
        test();
        return println!("{PASSED}");
    }
    let output = in_time("the child forks", move || child(name, "", &[]));
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_passed(output.status.success(), &text);
}

/// Runs `test` with growing times, within which it must schedule timers that are due after the time, until it returns
/// that the time sufficed.
fn with_enough_time(test: impl Fn(Duration) -> bool) {
    let mut time = 500 * MS;
    while !test(time) {
        time *= 2;
    }
    println!("{PASSED}");
}

const STOPPED: &str = "a_stopped_process_catches_up_in_order";

#[test]
fn a_stopped_process_catches_up_in_order() {
    if is_child(STOPPED) {
        return with_enough_time(catch_up_after_stop);
    }
    let mut child = child_command(STOPPED, "").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    let pid = Pid::from_raw(child.id() as i32);
    let mut text = String::new();
    for line in stdout.lines().map(Result::unwrap) {
        if let Some((_, time)) = line.split_once(STOP) {
            assert_eq!(waitpid(pid, Some(WaitPidFlag::WUNTRACED)).unwrap(), WaitStatus::Stopped(pid, Signal::SIGSTOP));
            thread::sleep(Duration::from_millis(time.trim().parse().unwrap()));
            kill(pid, Signal::SIGCONT).unwrap();
        }
        text += &line;
    }
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert_passed(child.wait().unwrap().success(), &text);
}

fn catch_up_after_stop(time: Duration) -> bool {
    const TIMERS: u32 = 10_000;
    const CANCELLED: u32 = 1000;
    let timer = one_by_one();
    let pool = Timer::new().unwrap();
    let start = Instant::now() + time;
    let at = |index: u32| start + index * Duration::from_micros(50);

    let (ordered, pooled, grid) = (Runs::default(), Runs::default(), Runs::default());
    // The timer with the earliest deadline is scheduled last.
    for index in (0..TIMERS).rev() {
        ordered.schedule(&timer, at(index));
        pooled.schedule(&pool, at(index));
    }
    let sleeps = join_all((0..100).map(|index| timer.sleep_until(at(200 * index))));
    let sleeper = thread::spawn(move || block_on(sleeps).len());
    let runs = grid.clone();
    let mut due = start;
    let every = timer.schedule_at_fixed_rate(start - Instant::now(), 5 * MS, move || {
        runs.record(due);
        due += 5 * MS;
    });
    // Cancelled in the middle of the backlog: one half by the callback that is due before them, the other half by
    // another thread while the driver is busy with that callback.
    let cancelled = Arc::new(AtomicUsize::new(0));
    let last = at(TIMERS) + MS;
    let (inside, outside) = [(); 2]
        .map(|()| (0..CANCELLED).map(|_| timer.schedule_at(last, counting(&cancelled)).unwrap()).collect::<Vec<_>>())
        .into();
    let caught_up = Gate::default();
    let others_done = Gate::default();
    let added = Runs::default();
    let reached = caught_up.clone();
    let go_on = others_done.clone();
    let more = added.clone();
    let weak = timer.downgrade();
    let stopped = Arc::new(AtomicBool::new(false));
    let was_stopped = stopped.clone();
    let stops = Arc::new(AtomicBool::new(false));
    let will_stop = stops.clone();
    let middle = at(TIMERS / 2);
    timer
        .schedule_at(middle, move || {
            // If it was scheduled late, those of later deadlines may have run.
            if !will_stop.load(Ordering::SeqCst) || middle.elapsed() < 300 * MS {
                return reached.open();
            }
            was_stopped.store(true, Ordering::SeqCst);
            let timer = weak.upgrade().unwrap();
            assert_eq!(inside.iter().filter(|handle| handle.cancel()).count(), inside.len());
            (0..100).for_each(|_| drop(more.schedule(&timer, Instant::now())));
            reached.open();
            go_on.pass();
        })
        .unwrap();

    if start.saturating_duration_since(Instant::now()) < time / 5 {
        return false;
    }
    stops.store(true, Ordering::SeqCst);
    println!("{STOP} {}", (last - Instant::now() + 500 * MS).as_millis());
    raise(Signal::SIGSTOP).unwrap();
    caught_up.pass();
    if !stopped.load(Ordering::SeqCst) {
        // The system did not run this thread in time.
        return false;
    }
    assert!(last < Instant::now(), "the last deadline has not passed");
    assert_eq!(outside.iter().filter(|handle| handle.cancel()).count(), outside.len());
    (0..100).for_each(|_| drop(added.schedule(&timer, Instant::now())));
    others_done.open();

    eventually("the backlog is caught up", || ordered.len() + pooled.len() == 2 * TIMERS as usize);
    eventually("the added timers have run", || added.len() == 200);
    assert_eq!(sleeper.join().unwrap(), 100);
    eventually("the grid is caught up", || {
        let missed = start.elapsed().as_millis() as usize / 5;
        grid.len() >= missed
    });
    assert!(every.unwrap().cancel());
    ordered.assert_in_order();
    grid.assert_in_order();
    assert!(pooled.0.lock().unwrap().iter().all(|(deadline, ran)| ran >= deadline));
    assert_eq!(cancelled.load(Ordering::SeqCst), 0);
    for timer in [timer, pool] {
        assert!(timer.is_empty());
        assert_balanced(&timer);
    }
    true
}

const STARVED: &str = "a_starved_process_runs_timers_in_order";

#[test]
fn a_starved_process_runs_timers_in_order() {
    if is_child(STARVED) {
        return with_enough_time(run_while_starved);
    }
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().unwrap().get() {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    hint::spin_loop();
                }
            });
        }
        let output = child(STARVED, "renice -n 19 $$ > /dev/null;", &[]);
        over.store(true, Ordering::Relaxed);
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert_passed(output.status.success(), &text);
    });
}

fn run_while_starved(time: Duration) -> bool {
    const TIMERS: u32 = 1000;
    let timer = one_by_one();
    let runs = Runs::default();
    let cancelled = Arc::new(AtomicUsize::new(0));
    for _ in 0..TIMERS {
        let handle = timer.schedule(2 * HOUR, counting(&cancelled)).unwrap();
        assert!(handle.reset(HOUR) && handle.cancel());
    }
    let start = Instant::now() + time;
    let mut random = Rng::with_seed(19);
    for _ in 0..TIMERS {
        runs.schedule(&timer, start + Duration::from_micros(random.u64(..1_000_000)));
    }
    if Instant::now() >= start {
        return false;
    }
    eventually("all timers have run", || runs.len() == TIMERS as usize);
    runs.assert_in_order();
    assert_eq!(cancelled.load(Ordering::SeqCst), 0);
    assert!(timer.is_empty());
    assert_balanced(&timer);
    true
}

#[test]
fn timers_fire_while_the_cores_of_the_threads_change() {
    let me = Pid::from_raw(0);
    let all = sched_getaffinity(me).unwrap();
    let cores: Vec<CpuSet> = (0..CpuSet::count())
        .filter(|&core| all.is_set(core).unwrap())
        .map(|core| {
            let mut set = CpuSet::new();
            set.set(core).unwrap();
            set
        })
        .collect();
    for pinned in [true, false] {
        // Build while only one core is available.
        sched_setaffinity(me, &cores[0]).unwrap();
        let builder = Timer::builder().shards(3).executor(Executor::Pool { threads: 2 });
        let timer = builder.thread_name("faults-cores").pin_cores(pinned).build().unwrap();
        sched_setaffinity(me, &all).unwrap();
        eventually("all threads have started", || threads_named("faults-cores") == 5);
        let threads: Vec<_> = tasks_named("faults-cores").into_iter().map(Pid::from_raw).collect();

        let runs = Runs::default();
        let mut random = Rng::with_seed(7);
        let mut number = 0;
        for round in 0..30 {
            for _ in 0..200 {
                runs.schedule(&timer, Instant::now() + Duration::from_micros(random.u64(..20_000)));
                number += 1;
            }
            for (index, &thread) in threads.iter().enumerate() {
                let set = if round % 3 == 2 { &all } else { &cores[(round + index) % cores.len()] };
                sched_setaffinity(thread, set).unwrap();
            }
            thread::sleep(5 * MS);
        }
        eventually("all timers have run", || runs.len() == number);
        assert!(runs.0.lock().unwrap().iter().all(|(deadline, ran)| ran >= deadline));
        assert_balanced(&timer);
    }
}

#[test]
fn timers_of_threads_that_panicked_still_fire() {
    const THREADS: usize = 200;
    const TIMERS: usize = 100;
    let timer = Timer::builder().shards(2).build().unwrap();
    let [left, cancelled, guarded] = [(); 3].map(|()| Arc::new(AtomicUsize::new(0)));
    let threads: Vec<_> = (0..THREADS)
        .map(|number| {
            let timer = timer.clone();
            let [left, cancelled, guarded] = [&left, &cancelled, &guarded].map(Arc::clone);
            thread::spawn(move || {
                let (mut handles, mut guards) = (Vec::new(), Vec::new());
                for _ in 0..TIMERS {
                    handles.push(timer.schedule(20 * MS, counting(&left)).unwrap());
                    assert!(timer.schedule(HOUR, counting(&cancelled)).unwrap().cancel());
                    guards.push(timer.schedule(HOUR, counting(&guarded)).unwrap().cancel_on_drop());
                }
                // Panics while scheduling one more timer, whose closure the thread still owns.
                let unfinished = counting(&left);
                timer.schedule(if number % 2 == 0 { MS } else { quiet_panic("panics") }, unfinished).unwrap();
                quiet_panic("panics")
            })
        })
        .collect();
    for thread in threads {
        assert!(thread.join().is_err());
    }
    let number = THREADS * TIMERS + THREADS / 2;
    eventually("the timers of the threads have fired", || left.load(Ordering::SeqCst) == number && timer.is_empty());
    assert_eq!(cancelled.load(Ordering::SeqCst) + guarded.load(Ordering::SeqCst), 0);
    let stats = timer.stats();
    assert_eq!((stats.fired, stats.cancelled), (number as u64, 2 * (THREADS * TIMERS) as u64));
    assert_balanced(&timer);
}

#[test]
fn handles_dropped_by_a_panic_detach_their_timers() {
    let (builder, clock) = on_manual_clock();
    let timer = builder.build().unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let handles: Vec<_> = (0..10).map(|_| timer.schedule(SEC, counting(&runs)).unwrap()).collect();
    let guards: Vec<_> = (0..10).map(|_| timer.schedule(SEC, counting(&runs)).unwrap().cancel_on_drop()).collect();
    let panics = move || {
        let _held = (handles, guards);
        quiet_panic("panics")
    };
    timer.schedule(MS, panics).unwrap();
    clock.advance(SEC);
    let stats = timer.stats();
    assert_eq!((runs.load(Ordering::SeqCst), stats.cancelled, stats.panicked), (10, 10, 1));
    assert_balanced(&timer);
}

const EXITS: &str = "a_process_may_exit_while_timers_run";

#[test]
fn a_process_may_exit_while_timers_run() {
    if is_child(EXITS) {
        for _ in 0..1000 {
            Timer::global().schedule_with_fixed_delay(Duration::ZERO, Duration::ZERO, || ()).unwrap();
        }
        thread::sleep(20 * MS);
        Timer::global().schedule(Duration::ZERO, || process::exit(42)).unwrap();
        thread::sleep(HOUR);
    }
    let output = in_time("the process exits", || child(EXITS, "", &[]));
    assert_eq!(output.status.code(), Some(42), "{output:?}");
}

const FORKS: &str = "an_inherited_timer_is_shut_down_in_a_forked_child";

/// Promise: forks.
#[test]
fn an_inherited_timer_is_shut_down_in_a_forked_child() {
    in_a_process(FORKS, fork_with_timers);
}

/// Forks. Returns `None` in the child, which must call [`end_fork`].
///
/// Forks again if the child cannot start a thread: another thread was starting or ending during the fork, and had a lock
/// of the standard library. The child can then neither start a thread nor exit, whatever it does with timers.
fn forked() -> Option<Pid> {
    loop {
        let (mut from_child, mut to_parent) = UnixStream::pair().unwrap();
        // SAFETY: the child may allocate and use the standard library after the fork, because Linux's allocator and
        // library support that in a process with several threads, apart from that lock.
        match unsafe { fork() }.unwrap() {
            ForkResult::Child if starts_threads() => {
                to_parent.write_all(&[1]).unwrap();
                return None;
            }
            // SAFETY: the call has no preconditions.
            ForkResult::Child => unsafe { libc::_exit(0) },
            ForkResult::Parent { child } => {
                drop(to_parent);
                if from_child.read(&mut [0]).unwrap() == 1 {
                    return Some(child);
                }
                waitpid(child, None).unwrap();
            }
        }
    }
}

/// Returns whether a new thread of this process runs and ends.
fn starts_threads() -> bool {
    let (sender, receiver) = channel();
    let thread = thread::spawn(move || _ = sender.send(()));
    receiver.recv_timeout(SEC).is_ok_and(|()| thread.join().is_ok())
}

/// Ends the child of a fork after it has run `test`.
fn end_fork(test: impl FnOnce()) -> ! {
    let outcome = panic::catch_unwind(AssertUnwindSafe(test));
    process::exit(if outcome.is_ok() { 42 } else { 1 });
}

#[track_caller]
fn assert_fork_passes(child: Pid) {
    let mut status = WaitStatus::StillAlive;
    eventually("the fork ends", || {
        status = waitpid(child, Some(WaitPidFlag::WNOHANG)).unwrap();
        status != WaitStatus::StillAlive
    });
    assert_eq!(status, WaitStatus::Exited(child, 42));
}

const FORKS_WITH_JOBS: &str = "the_jobs_of_an_executor_do_nothing_in_a_forked_child";

/// Promise: forks.
#[test]
fn the_jobs_of_an_executor_do_nothing_in_a_forked_child() {
    in_a_process(FORKS_WITH_JOBS, fork_with_jobs);
}

fn fork_with_jobs() {
    let held_jobs = HeldJobs::default();
    let runs = Arc::new(AtomicUsize::new(0));
    let tokens = Tokens::default();
    let timer = Timer::builder().shards(1).executor(held_jobs.executor()).build().unwrap();
    for _ in 0..3 {
        let run = counting(&runs);
        let token = tokens.give();
        timer
            .schedule(Duration::ZERO, move || {
                run();
                drop(token);
            })
            .unwrap();
    }
    eventually("all timers are handed over", || held_jobs.len() == 3);
    let mut jobs = held_jobs.take().into_iter();
    match forked() {
        None => end_fork(|| {
            jobs.next().unwrap()();
            drop(jobs);
            assert_eq!((runs.load(Ordering::SeqCst), tokens.alive()), (0, 3), "the closures belong to the parent");
        }),
        Some(child) => assert_fork_passes(child),
    }
    jobs.for_each(|job| job());
    assert_eq!((runs.load(Ordering::SeqCst), tokens.alive()), (3, 0));
}

#[cfg(feature = "wall")]
const FORKS_WITH_WALL: &str = "an_inherited_wall_timer_is_shut_down_in_a_forked_child";

/// Promise: forks.
#[cfg(feature = "wall")]
#[test]
fn an_inherited_wall_timer_is_shut_down_in_a_forked_child() {
    in_a_process(FORKS_WITH_WALL, fork_with_wall_timer);
}

#[cfg(feature = "wall")]
fn fork_with_wall_timer() {
    let timer = Timer::builder().shards(1).build().unwrap();
    let wall = corewheel::wall::WallTimer::new(&timer);
    let (sender, receiver) = channel();
    let tokens = Tokens::default();
    let token = tokens.give();
    let run = move || {
        drop(token);
        sender.send(()).unwrap();
    };
    let handle = wall.schedule_after(SEC, run).unwrap();
    match forked() {
        None => end_fork(|| {
            assert!(!handle.is_pending() && !handle.cancel() && !handle.reset_after(SEC));
            assert!(wall.is_empty() && !wall.is_told());
            assert!(wall.schedule_after(SEC, || ()).unwrap_err().is_shutdown());
            drop((wall.sleep(SEC), handle, wall, timer));
            assert_eq!(tokens.alive(), 1, "the closure belongs to the parent");
            // A timer of its own.
            let timer = Timer::builder().shards(1).build().unwrap();
            let (sender, receiver) = channel();
            let wall = corewheel::wall::WallTimer::new(&timer);
            wall.schedule_after(MS, move || sender.send(()).unwrap()).unwrap();
            wait_for(&receiver);
        }),
        Some(child) => assert_fork_passes(child),
    }
    wait_for(&receiver);
    assert_eq!(tokens.alive(), 0);
}

/// Forks when it is woken or dropped. The child exits at once.
struct ForksAndExits(Sender<Pid>);

impl ForksAndExits {
    fn fork(&self) {
        // SAFETY: the child makes one call, which is async-signal-safe.
        match unsafe { fork() }.unwrap() {
            // SAFETY: the call has no preconditions.
            ForkResult::Child => unsafe { libc::_exit(42) },
            ForkResult::Parent { child } => self.0.send(child).unwrap(),
        }
    }
}

impl Wake for ForksAndExits {
    fn wake(self: Arc<Self>) {
        self.fork();
    }
}

impl Drop for ForksAndExits {
    fn drop(&mut self) {
        self.fork();
    }
}

/// Promise: forks.
#[test]
fn foreign_code_may_fork_if_the_child_exits_or_becomes_another_program() {
    let ((sender, pids), (started, statuses)) = (channel(), channel());
    let timer = Timer::new().unwrap();
    let forks = ForksAndExits(sender.clone());
    timer.schedule(MS, move || forks.fork()).unwrap();
    timer.schedule(MS, move || started.send(process::Command::new("true").status().unwrap()).unwrap()).unwrap();
    let mut sleep = timer.sleep(500 * MS);
    let waker = Waker::from(Arc::new(ForksAndExits(sender.clone())));
    assert!(Pin::new(&mut sleep).poll(&mut Context::from_waker(&waker)).is_pending());
    drop(waker);
    assert!(wait_for(&statuses).success());
    // The callback and its drop, the waker and its drop.
    (0..4).for_each(|_| assert_fork_passes(wait_for(&pids)));
    let forks = ForksAndExits(sender);
    timer.schedule(HOUR, move || drop(forks)).unwrap();
    drop((timer, sleep));
    // The drop by the shutdown.
    pids.iter().for_each(assert_fork_passes);
}

const FORKS_AT_FIRST_USE: &str = "a_fork_during_the_first_use_of_the_global_timer_leaves_the_child_one_of_its_own";

/// Promise: forks.
#[test]
fn a_fork_during_the_first_use_of_the_global_timer_leaves_the_child_one_of_its_own() {
    in_a_process(FORKS_AT_FIRST_USE, fork_at_first_uses);
}

/// Each process has a first use of its own, and its child a generation of its own. A starved process forks slowly, so it
/// has fewer rounds.
fn fork_at_first_uses() {
    let start = Instant::now();
    for round in (0..40).take_while(|_| start.elapsed() < TIMEOUT / 2) {
        match forked() {
            None => end_fork(|| fork_at_first_use(round, 2)),
            Some(child) => assert_fork_passes(child),
        }
    }
}

/// Forks while another thread starts the global timer. The child does the same, and its child uses the timer.
fn fork_at_first_use(round: u32, generations: u32) {
    let first = thread::spawn(|| _ = Timer::global());
    spin(round * Duration::from_micros(10));
    match forked() {
        Some(child) => assert_fork_passes(child),
        None if generations > 1 => end_fork(|| fork_at_first_use(round, generations - 1)),
        None => end_fork(|| {
            let (sender, receiver) = channel();
            if !Timer::global().is_shutdown() {
                Timer::global().schedule(MS, move || sender.send(()).unwrap()).unwrap();
                wait_for(&receiver);
            }
        }),
    }
    first.join().unwrap();
}

const FORKS_AT_FIRST_COUNT: &str = "a_fork_while_a_thread_first_counts_timers_leaves_the_child_able_to_count_them";

/// Promise: forks.
#[test]
fn a_fork_while_a_thread_first_counts_timers_leaves_the_child_able_to_count_them() {
    in_a_process(FORKS_AT_FIRST_COUNT, fork_at_first_count);
}

/// Forks while another thread is inside the first count of the process, which allocates what all counts share.
fn fork_at_first_count() {
    // In virtual time no pool starts, whose threads would be the first to use what counts share.
    let (timer, _clock) = in_virtual_time();
    let counted = timer.clone();
    let first = thread::spawn(move || {
        PAUSES.set(true);
        counted.is_empty()
    });
    eventually("the first count allocates", || HAS_PAUSED.load(Ordering::SeqCst));
    match forked() {
        None => end_fork(|| assert!(timer.is_empty())),
        Some(child) => assert_fork_passes(child),
    }
    assert!(first.join().unwrap());
}

fn fork_with_timers() {
    let timer = Timer::new().unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let tokens = Tokens::default();
    let [token, guarded] = [(); 2].map(|()| tokens.give());
    let handle = timer.schedule(HOUR, move || drop(token)).unwrap();
    let guard = timer.schedule(HOUR, move || drop(guarded)).unwrap().cancel_on_drop();
    timer.schedule(300 * MS, counting(&runs)).unwrap();
    let (virtual_timer, clock) = in_virtual_time();
    virtual_timer.schedule(SEC, || ()).unwrap();
    let waker = Arc::new(Woken);
    let mut sleeps = [timer.sleep(HOUR), timer.sleep(HOUR), timer.sleep(HOUR)];
    for sleep in &mut sleeps {
        assert!(Pin::new(sleep).poll(&mut Context::from_waker(&waker.clone().into())).is_pending());
    }
    let queue = DelayQueue::new(&timer);
    let values = Tokens::default();
    let key = queue.push(HOUR, values.give()).unwrap();
    let driven = Timer::new().unwrap();
    let mut driver = driven.take_driver().unwrap();
    driver.set_waker(&waker.clone().into());
    let wakers = Arc::strong_count(&waker);
    // The last owner of an executor.
    let executor = values.give();
    let execute = ExecuteFn(move |_| _ = &executor);
    let ended = Timer::builder().executor(Executor::Custom(Arc::new(execute))).build().unwrap();
    let last = ended.take_driver().unwrap();
    drop(ended);
    let alive = values.alive();
    match forked() {
        None => end_fork(|| {
            drop(last);
            assert_eq!(values.alive(), alive, "the executor belongs to the parent");
            drive_inherited(&driven, driver);
            assert_eq!(Arc::strong_count(&waker), wakers, "the loop's waker belongs to the parent");
            sleep_inherited(sleeps, &waker);
            queue_inherited(queue, key, &values);
            use_inherited(timer, handle, guard, &tokens);
            clock.advance(SEC);
            assert_eq!(virtual_timer.stats().fired, 0);
        }),
        Some(child) => assert_fork_passes(child),
    }
    drop(last);
    assert_eq!(values.alive(), alive - 1);
    // The fork does not affect the parent's timer.
    eventually("the parent's timer fires", || runs.load(Ordering::SeqCst) == 1);
    assert!(!timer.is_shutdown() && handle.is_pending() && handle.reset(2 * HOUR) && handle.cancel());
    drop(guard);
    assert!(key.reset(2 * HOUR) && key.remove().is_some() && queue.is_empty());
    assert_eq!((tokens.alive(), values.alive()), (0, 0));
    assert_eq!(timer.len(), 3, "the sleeps");
    drop((sleeps, driver));
    assert_eq!((timer.len(), Arc::strong_count(&waker)), (0, 1));
    assert_balanced(&timer);
    clock.advance(SEC);
    assert_eq!(virtual_timer.stats().fired, 1);
}

/// Uses the driver of the parent's loop in the child of a fork.
fn drive_inherited(timer: &Timer, mut driver: Driver) {
    assert!(driver.is_shutdown() && driver.drive() == 0 && driver.next_wakeup().is_none());
    let told = Arc::new(Told(AtomicBool::new(false)));
    driver.set_waker(&told.clone().into());
    assert!(told.0.load(Ordering::SeqCst), "the loop is told of the end");
    drop(driver);
    assert!(timer.take_driver().is_none());
}

struct Told(AtomicBool);

impl Wake for Told {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A waker that must not be called.
struct Woken;

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        panic!("a task of the parent was woken");
    }
}

fn is_ready(sleep: &mut Sleep) -> bool {
    Pin::new(sleep).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

/// Uses a queue of the parent in the child of a fork.
fn queue_inherited(queue: DelayQueue<Token>, key: DelayKey<Token>, tokens: &Tokens) {
    let alive = tokens.alive();
    assert!(queue.is_closed() && queue.is_empty() && queue.drain().next().is_none());
    queue.close();
    assert!(queue.try_pop().is_none() && queue.pop().is_none() && queue.pop_timeout(HOUR).is_none());
    let refused = queue.push(MS, tokens.give()).unwrap_err();
    assert!(refused.is_shutdown() && !key.reset(MS) && key.deadline().is_none());
    drop((refused, queue.clone()));
    assert!(key.remove().is_none());
    drop(queue);
    assert_eq!(tokens.alive(), alive, "the values are the parent's");
}

/// Uses the sleeps of the parent in the child of a fork.
fn sleep_inherited([polled, mut reset, dropped]: [Sleep; 3], waker: &Arc<Woken>) {
    let wakers = Arc::strong_count(waker);
    drop(dropped);
    assert!(polled.is_elapsed() && polled.is_shutdown());
    block_on(polled);
    Pin::new(&mut reset).reset(Instant::now() + HOUR);
    assert!(!is_ready(&mut reset) && reset.is_shutdown());
    drop(reset);
    assert_eq!(Arc::strong_count(waker), wakers, "the wakers belong to the parent");
}

/// Uses the timer of the parent in the child of a fork.
fn use_inherited(timer: Timer, handle: TimerHandle, guard: CancelOnDrop, tokens: &Tokens) {
    assert!(timer.is_shutdown());
    assert!(timer.schedule(MS, || ()).unwrap_err().is_shutdown());
    assert!(timer.schedule_at_fixed_rate(MS, MS, || ()).unwrap_err().is_shutdown());
    let mut sleep = timer.sleep(HOUR);
    assert!(!is_ready(&mut sleep) && sleep.is_shutdown());
    assert!(is_ready(&mut timer.sleep(Duration::ZERO)));
    assert_eq!(timer.shutdown().len(), 0);
    assert!(!handle.is_pending() && handle.deadline().is_none());
    assert!(!handle.cancel() && !handle.cancel_and_wait());
    assert!(!handle.reset(MS) && !handle.reset_at(Instant::now()));
    drop(guard);
    drop(handle);
    drop(timer);
    assert_eq!(tokens.alive(), 2, "a closure of the parent was dropped");

    let own = Timer::new().unwrap();
    let (sender, receiver) = channel();
    own.schedule(MS, move || sender.send(()).unwrap()).unwrap();
    wait_for(&receiver);
    assert_eq!(own.shutdown().len(), 0);
}
