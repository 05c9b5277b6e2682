//! What a pool guarantees to callbacks that are slow, that block, and that use rayon themselves.
#![cfg(feature = "std")]

mod common;

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use common::*;
use corewheel::{BuildError, Executor, Panicked, Timer, rayon};

/// Rayon pools of two threads that run callbacks: the timer's own, the test's, and the global one.
fn pools_of_two() -> [Executor; 3] {
    // The first use of the global pool determines its number of threads.
    let _ = rayon::ThreadPoolBuilder::new().num_threads(2).build_global();
    [Executor::Pool { threads: 2 }, rayon_pool(), Executor::RayonGlobal]
}

/// Callbacks of these tests wait for each other, and all tests share the two threads of the global pool, so the tests
/// run one at a time.
static TURN: Mutex<()> = Mutex::new(());

/// Promise: no starvation by a neighbour.
#[test]
fn a_worker_that_returns_from_other_work_runs_due_timers() {
    for executor in pools_of_two() {
        let _turn = TURN.lock();
        // An extra thread would run the callback that is due.
        let timer = Timer::builder().shards(1).max_extra_threads(0).executor(executor.clone()).build().unwrap();
        for trial in 0..10 {
            let (elsewhere, blocked) = (Gate::default(), Gate::default());
            let (sender, receiver) = channel();
            // One worker is busy with a rayon task, and the other runs callbacks for so long that it looks for more
            // work.
            let (job_pass, job_sender) = (elsewhere.clone(), sender.clone());
            let occupy = move || {
                rayon::spawn(move || {
                    job_sender.send("begins").unwrap();
                    job_pass.pass();
                    job_sender.send("elsewhere").unwrap();
                });
            };
            timer.schedule(Duration::ZERO, occupy).unwrap();
            assert_eq!(wait_for(&receiver), "begins");
            let stream = [0, 1, 2].map(|_| timer.schedule_at_fixed_rate(MS, MS, || spin(MS / 2)).unwrap());
            thread::sleep((40 + trial) * MS);
            // That worker blocks, and then the first one returns from its task.
            let (pass, block_sender) = (blocked.clone(), sender.clone());
            let block = move || {
                block_sender.send("blocked").unwrap();
                pass.pass();
            };
            timer.schedule(Duration::ZERO, block).unwrap();
            assert_eq!(wait_for(&receiver), "blocked");
            assert!(stream.iter().all(|timer| timer.cancel()));
            elsewhere.open();
            assert_eq!(wait_for(&receiver), "elsewhere");
            thread::sleep(5 * MS);
            timer.schedule(Duration::ZERO, move || sender.send("due").unwrap()).unwrap();
            assert_eq!(
                receiver.recv_timeout(TIMEOUT / 4),
                Ok("due"),
                "one worker of {executor:?} is idle in trial {trial}"
            );
            blocked.open();
        }
    }
}

/// Promise: no starvation by a neighbour.
#[test]
fn busy_workers_wake_no_driver() {
    for executor in pools_of_two() {
        let _turn = TURN.lock();
        let timer = Timer::builder().shards(1).executor(executor.clone()).max_extra_threads(0).build().unwrap();
        let gate = Gate::default();
        let (sender, receiver) = channel();
        (0..2).for_each(|_| block(&timer, 1, &gate));
        timer.schedule(Duration::ZERO, move || sender.send(()).unwrap()).unwrap();
        thread::sleep(50 * MS);
        let before = timer.stats().wakeups;
        thread::sleep(500 * MS);
        let wakeups = timer.stats().wakeups - before;
        // The workers of the timer's own pool find waiting batches themselves.
        let most = if matches!(executor, Executor::Pool { .. }) { 2 } else { 50 };
        assert!(wakeups <= most, "{executor:?}: {wakeups} in half a second");
        gate.open();
        wait_for(&receiver);
    }
}

/// Promise: no starvation by a neighbour.
#[test]
fn a_batch_that_starts_late_gets_a_second_worker() {
    for executor in pools_of_two() {
        let _turn = TURN.lock();
        let timer = Timer::builder().shards(1).executor(executor).build().unwrap();
        let gates = [(); 3].map(|()| Gate::default());
        let (sender, receiver) = channel();
        gates[..2].iter().for_each(|gate| block(&timer, 1, gate));
        // Both workers are busy. The next timers form one batch, whose first callback blocks.
        let at = timer.now() + 10 * MS;
        let is_first = Arc::new(AtomicBool::new(true));
        for _ in 0..4 {
            let sender = sender.clone();
            let gate = gates[2].clone();
            let is_first = is_first.clone();
            let run = move || {
                if is_first.swap(false, Ordering::SeqCst) {
                    gate.pass();
                } else {
                    sender.send(()).unwrap();
                }
            };
            timer.schedule_at(at, run).unwrap();
        }
        thread::sleep(100 * MS);
        gates[0].open();
        thread::sleep(50 * MS);
        gates[1].open();
        for _ in 0..3 {
            wait_for(&receiver);
        }
        gates[2].open();
    }
}

/// Schedules a callback that holds a lock during `work`, which must schedule four callbacks that need the lock. Waits for
/// these four.
fn hold_a_lock_during(timer: &Timer, work: impl FnOnce(&Timer, &Arc<Mutex<()>>, &Sender<()>) + Send + 'static) {
    let service = timer.downgrade();
    let lock = Arc::new(Mutex::new(()));
    let (sender, receiver) = channel();
    let holds = move || {
        let timer = service.upgrade().unwrap();
        let guard = lock.lock().unwrap();
        work(&timer, &lock, &sender);
        drop(guard);
    };
    timer.schedule(MS, holds).unwrap();
    for _ in 0..4 {
        wait_for(&receiver);
    }
}

/// Promise: no starvation by a neighbour.
#[test]
fn no_callback_runs_inside_one_that_holds_a_lock_across_a_join() {
    for executor in pools_of_two() {
        let _turn = TURN.lock();
        let timer = Timer::builder().shards(2).executor(executor).build().unwrap();
        for _ in 0..20 {
            hold_a_lock_during(&timer, |timer, lock, sender| {
                let stolen = AtomicBool::new(false);
                let second_half = || {
                    stolen.store(true, Ordering::SeqCst);
                    // While the first half waits for this one, timers become due whose callbacks need the lock.
                    schedule_four_that_lock(timer, lock, sender, 2 * MS);
                };
                rayon::join(|| spin_until(&stolen), second_half);
            });
        }
    }
}

/// Waits until the other half of a join was stolen. If no worker steals it in time, it runs on this thread.
fn spin_until(stolen: &AtomicBool) {
    let start = Instant::now();
    while !stolen.load(Ordering::SeqCst) && start.elapsed() < 50 * MS {
        thread::yield_now();
    }
}

/// Schedules callbacks that are due at once and need the lock, one after each `pause`.
fn schedule_four_that_lock(timer: &Timer, lock: &Arc<Mutex<()>>, sender: &Sender<()>, pause: Duration) {
    for _ in 0..4 {
        let (lock, sender) = (lock.clone(), sender.clone());
        let locks = move || {
            drop(lock.lock().unwrap());
            sender.send(()).unwrap();
        };
        timer.schedule(Duration::ZERO, locks).unwrap();
        thread::sleep(pause);
    }
}

/// The callback waits inside rayon for the threads of another pool.
/// Promise: no starvation by a neighbour.
#[test]
fn no_callback_runs_inside_one_that_waits_for_another_pool() {
    let timer = Timer::builder().shards(1).executor(Executor::Pool { threads: 2 }).build().unwrap();
    let other = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap());
    for _ in 0..20 {
        let other = other.clone();
        hold_a_lock_during(&timer, move |timer, lock, sender| {
            other.install(|| schedule_four_that_lock(timer, lock, sender, 4 * MS));
        });
    }
}

/// Promise: no starvation by a neighbour.
#[test]
fn a_borrowed_pool_runs_callbacks_work_on_all_its_threads() {
    for executor in pools_of_two().into_iter().skip(1) {
        let _turn = TURN.lock();
        let timer = Timer::builder().shards(1).executor(executor.clone()).build().unwrap();
        let (sender, receiver) = channel();
        let uses = move || {
            assert_eq!(rayon::current_num_threads(), 2);
            // The halves wait for each other, so both threads take part.
            let meets = [Gate::default(), Gate::default()];
            let meet = |mine: usize| {
                meets[mine].open();
                meets[1 - mine].pass();
            };
            rayon::join(|| meet(0), || meet(1));
            let everywhere: HashSet<_> = rayon::broadcast(|context| context.index()).into_iter().collect();
            assert_eq!(everywhere.len(), 2);
            assert_eq!(sum_in_a_scope(), 4950);
            let (done, part) = channel();
            rayon::spawn(move || done.send(()).unwrap());
            wait_for(&part);
            // Tasks that nothing waits for run, too, on every thread.
            let sent = Mutex::new(sender.clone());
            rayon::spawn_broadcast(move |_| sent.lock().unwrap().send(()).unwrap());
            rayon::spawn(move || sender.send(()).unwrap());
        };
        timer.schedule(MS, uses).unwrap();
        for _ in 0..3 {
            wait_for(&receiver);
        }
        eventually("the callback has run", || timer.stats().completed == 1);
        assert_eq!(timer.stats().panicked, 0, "{executor:?}");
    }
}

/// Promise: no starvation by a neighbour.
#[test]
fn rayon_works_inside_callbacks_on_one_thread() {
    let timer = Timer::builder().shards(1).executor(Executor::Pool { threads: 2 }).build().unwrap();
    let (sender, receiver) = channel();
    let other = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let uses = move || {
        use_rayon_on_one_thread(&sender);
        // Threads of another pool give work to a scope of this one.
        let parts = AtomicUsize::new(0);
        let count = |_: &_| _ = parts.fetch_add(1, Ordering::SeqCst);
        rayon::scope(|scope| _ = other.broadcast(|_| scope.spawn(count)));
        assert_eq!(parts.into_inner(), 2);
    };
    timer.schedule(MS, uses).unwrap();
    (0..TASKS).for_each(|_| _ = wait_for(&receiver));
    eventually("the callback has run", || timer.stats().completed == 1);
    assert_eq!(timer.stats().panicked, 0);
    let (sender, receiver) = channel();
    let sender = Mutex::new(sender);
    timer.schedule(MS, || rayon::spawn_broadcast(move |_| sender.lock().unwrap().send(()).unwrap())).unwrap();
    wait_for(&receiver);
}

/// A pool of one thread, without extra ones, runs both callbacks. The second waits for what the first has spawned.
/// Promise: no starvation by a neighbour.
#[test]
fn spawned_work_does_not_wait_for_a_later_callback() {
    let timer =
        Timer::builder().shards(1).executor(Executor::Pool { threads: 1 }).max_extra_threads(0).build().unwrap();
    for _ in 0..20 {
        let gate = Gate::default();
        let runs = Arc::new(AtomicUsize::new(0));
        let at = timer.now() + MS;
        for _ in 0..2 {
            let (gate, runs) = (gate.clone(), runs.clone());
            let spawn_or_wait = move || {
                if runs.fetch_add(1, Ordering::SeqCst) == 0 {
                    // Also what that spawns.
                    rayon::spawn(move || rayon::spawn(move || gate.open()));
                } else {
                    gate.pass();
                }
            };
            timer.schedule_at(at, spawn_or_wait).unwrap();
        }
        gate.pass();
    }
}

/// Promise: no starvation by a neighbour.
#[test]
fn an_idle_pool_sleeps_beside_a_blocked_callback() {
    let name = "pool-idle";
    let timer = Timer::builder().shards(1).thread_name(name).executor(Executor::Pool { threads: 4 }).build().unwrap();
    let gate = Gate::default();
    let (sender, receiver) = channel();
    for _ in 0..100 {
        let sender = sender.clone();
        timer.schedule(MS, move || rayon::spawn(move || sender.send(()).unwrap())).unwrap();
    }
    for _ in 0..100 {
        wait_for(&receiver);
    }
    let sleeps_in_half_a_second = || {
        thread::sleep(300 * MS);
        let before = sleeps_of(name);
        thread::sleep(500 * MS);
        sleeps_of(name) - before
    };
    let idle = sleeps_in_half_a_second();
    let pass = gate.clone();
    timer.schedule(MS, move || pass.pass()).unwrap();
    let blocked = sleeps_in_half_a_second();
    gate.open();
    assert!(idle <= 2, "{idle} wake-ups without work");
    assert!(blocked <= 2, "{blocked} wake-ups beside a blocked callback");
}

const NO_THREAD: &str = "build_succeeds_or_returns_an_error_at_any_thread_limit";

#[test]
fn build_succeeds_or_returns_an_error_at_any_thread_limit() {
    const POOL: usize = 2;
    const SHARDS: usize = 3;
    if is_child(NO_THREAD) {
        let build = || {
            let executor = Executor::Pool { threads: POOL };
            Timer::builder().shards(SHARDS).thread_name("limited").executor(executor).build()
        };
        let answer = match in_this_thread_in_time(build) {
            Ok(timer) => {
                // The pool may be unable to grow: then callbacks wait.
                let gate = Gate::default();
                let runs = Arc::new(AtomicUsize::new(0));
                for _ in 0..2 * POOL {
                    let pass = gate.clone();
                    timer.schedule(Duration::ZERO, move || pass.pass()).unwrap();
                    timer.schedule(MS, counting(&runs)).unwrap();
                }
                thread::sleep(50 * MS);
                // A start that the system refused counts as no thread.
                let is_exact = || timer.stats().extra_threads as usize == threads_named("limited-extra");
                eventually("the count of extra threads is that of the system", is_exact);
                gate.open();
                eventually("all callbacks have run", || timer.stats().completed == 4 * POOL as u64);
                assert_eq!(runs.load(Ordering::SeqCst), 2 * POOL);
                drop(timer);
                "built"
            }
            Err(BuildError::ThreadStart(_)) => "refused",
            Err(other) => panic!("{other:?}"),
        };
        eventually("every thread has ended", || threads_named("limited") == 0);
        println!("answer: {answer}");
        return;
    }
    // Each thread has a stack so large that the limit leaves room for none, one, two and so on. In kB.
    const STACK: usize = if cfg!(target_pointer_width = "64") { 1_000_000 } else { 200_000 };
    let mut answers = Vec::new();
    for room in 0..=POOL + SHARDS + 4 {
        let limit = format!("ulimit -v {};", room * (STACK + STACK / 100) + STACK * 3 / 5);
        let stack = (STACK * 1000).to_string();
        let variables = [("RUST_MIN_STACK", &*stack), ("MALLOC_ARENA_MAX", "1")];
        let output = child(NO_THREAD, &limit, &variables);
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        let answer = text.split("answer: ").nth(1).and_then(|rest| rest.split_whitespace().next());
        answers.push(answer.unwrap_or_else(|| panic!("room for {room}: {text}")).to_owned());
    }
    let refused = answers.iter().take_while(|answer| *answer == "refused").count();
    assert!(answers[refused..].iter().all(|answer| answer == "built"), "{answers:?}");
    // So `build` failed for lack of the first worker, the second, the first driver, and so on.
    assert!((POOL + SHARDS..answers.len()).contains(&refused), "{answers:?}");
}

/// Ends the process if `f` does not return in time. There may be no room for a thread that watches it.
fn in_this_thread_in_time<T>(f: impl FnOnce() -> T) -> T {
    // SIGALRM ends a process that does not handle it.
    nix::unistd::alarm::set(TIMEOUT.as_secs().try_into().unwrap());
    let result = f();
    nix::unistd::alarm::cancel();
    result
}

const GLOBAL: &str = "the_global_pool_is_started_on_demand_or_build_returns_an_error";

#[test]
fn the_global_pool_is_started_on_demand_or_build_returns_an_error() {
    use std::error::Error;
    let build = || Timer::builder().shards(1).executor(Executor::RayonGlobal).build();
    if is_child(GLOBAL) {
        for _ in 0..2 {
            let error = build().unwrap_err();
            assert!(matches!(error, BuildError::ThreadStart(_)), "{error:?}");
            assert!(error.source().unwrap().is::<std::io::Error>());
        }
        println!("the child has passed");
        return;
    }
    let output = child_without_threads(GLOBAL);
    assert!(output.status.success() && String::from_utf8_lossy(&output.stdout).contains("the child has passed"));
    let _turn = TURN.lock();
    let timer = build().unwrap();
    let (sender, receiver) = channel();
    timer.schedule(MS, move || sender.send(thread::current().id()).unwrap()).unwrap();
    let ran_on = wait_for(&receiver);
    assert!(rayon::broadcast(|_| thread::current().id()).contains(&ran_on));
    drop(timer);
    assert_eq!(rayon::join(|| 1, || 2), (1, 2));
}

#[test]
fn a_panic_of_work_that_a_callback_has_spawned_goes_to_the_hook() {
    // In a process of its own, which rayon would abort.
    const NAME: &str = "a_panic_of_work_that_a_callback_has_spawned_goes_to_the_hook";
    if !is_child(NAME) {
        let output = in_time("the child", || child(NAME, "", &[]));
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}");
        return;
    }
    let (sender, payloads) = channel();
    let sender = Mutex::new(sender);
    let report = move |panicked: Panicked| {
        assert_eq!((panicked.callback, panicked.shard), (None, None), "rayon's work is no callback");
        let message = *panicked.payload.downcast_ref::<&str>().unwrap();
        sender.lock().unwrap().send((message, thread::current().name().unwrap().to_owned())).unwrap();
    };
    let timer = Timer::builder().shards(2).executor(Executor::Pool { threads: 1 }).on_panic(report).build().unwrap();
    timer.schedule(Duration::ZERO, || rayon::spawn(|| quiet_panic("in the pool"))).unwrap();
    assert_eq!(wait_for(&payloads), ("in the pool", "corewheel-pool-0".to_owned()));
    if cfg!(any(target_os = "linux", target_os = "android")) {
        let (gate, is_extra) = (Gate::default(), Gate::default());
        block(&timer, 1, &gate);
        let begun = is_extra.clone();
        let spawn = move || {
            rayon::spawn(|| quiet_panic("in an extra thread"));
            begun.open();
        };
        timer.schedule(Duration::ZERO, spawn).unwrap();
        is_extra.pass();
        let (message, thread) = wait_for(&payloads);
        // An assertion that fails drops the timer, which waits for the blocked callback.
        gate.open();
        assert!(message == "in an extra thread" && thread.starts_with("corewheel-extra-"), "{thread}");
    }
    eventually("both are counted", || timer.stats().panicked >= 2 - u64::from(!cfg!(target_os = "linux")));
    assert!(timer.schedule(Duration::ZERO, || ()).is_ok(), "the timer goes on");
    timer.shutdown();
    assert_balanced(&timer);
}

/// The callback itself shuts the timer down or drops its last clone, or a shutdown has a limit, or it is called in the
/// work that another callback has given to rayon.
/// Promise: the shutdown loses nothing.
#[test]
fn a_callback_may_use_rayon_after_a_shutdown_that_did_not_wait_for_it() {
    type End = fn(Timer);

    fn shut_down_in_other_work(timer: Timer) {
        let inner = timer.clone();
        let (sender, receiver) = channel();
        let shut_down = move || {
            drop(inner.shutdown());
            sender.send(()).unwrap();
        };
        timer.schedule(Duration::ZERO, || rayon::spawn(shut_down)).unwrap();
        wait_for(&receiver);
    }

    let ends: [(End, End); 4] = [
        (|timer| drop(timer.shutdown()), drop),
        (drop, drop),
        (drop, |timer| drop(timer.shutdown_timeout(10 * MS))),
        (drop, shut_down_in_other_work),
    ];
    for (inside, outside) in ends {
        let timer = Timer::builder().shards(1).executor(Executor::Pool { threads: 3 }).build().unwrap();
        let inner = timer.clone();
        let begun = Gate::default();
        let gate = Gate::default();
        let (sender, receiver) = channel();
        let (begin, pass) = (begun.clone(), gate.clone());
        let callback = move || {
            begin.open();
            pass.pass();
            inside(inner);
            // The pool's other threads have left the timer's queue.
            thread::sleep(20 * MS);
            use_rayon_on_one_thread(&sender);
        };
        timer.schedule(Duration::ZERO, callback).unwrap();
        begun.pass();
        outside(timer);
        gate.open();
        (0..TASKS).for_each(|_| _ = wait_for(&receiver));
    }
}
