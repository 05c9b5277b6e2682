//! Threads that foreign code starts on a thread of a timer inherit the core of no pinned thread.
#![cfg(all(feature = "std", target_os = "linux"))]

mod common;

use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::thread;

use common::*;
use corewheel::{Executor, Timer};
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;

/// Returns the cores that the calling thread may use.
fn cores() -> CpuSet {
    sched_getaffinity(Pid::from_raw(0)).unwrap()
}

/// Returns the cores that a thread may use which the calling thread starts.
fn cores_of_a_new_thread() -> CpuSet {
    thread::spawn(cores).join().unwrap()
}

/// Returns the cores of each thread whose name begins with `prefix`.
fn cores_of_threads(prefix: &str) -> Vec<CpuSet> {
    tasks_named(prefix).into_iter().map(|task| sched_getaffinity(Pid::from_raw(task)).unwrap()).collect()
}

fn core_count(cores: &CpuSet) -> usize {
    (0..CpuSet::count()).filter(|&core| cores.is_set(core).unwrap()).count()
}

#[test]
fn drivers_use_all_cores_unless_they_are_pinned() {
    let ours = cores();
    let timer = Timer::builder().shards(3).thread_name("inherit-free").build().unwrap();
    eventually("the threads have started", || threads_named("inherit-free") >= 3);
    assert!(cores_of_threads("inherit-free").iter().all(|cores| *cores == ours));
    drop(timer);
    let executor = Executor::Inline;
    let timer =
        Timer::builder().shards(3).pin_cores(true).executor(executor).thread_name("inherit-one").build().unwrap();
    // A driver is on one core once it has run its setup.
    eventually("each driver is on one core", || {
        let pinned = cores_of_threads("inherit-one");
        pinned.len() == 3 && pinned.iter().all(|cores| core_count(cores) == 1)
    });
    let is_used = |core| cores_of_threads("inherit-one").iter().any(|cores| cores.is_set(core).unwrap());
    let used = (0..CpuSet::count()).filter(|&core| is_used(core)).count();
    assert_eq!(used, core_count(&ours).min(3), "the drivers spread over the cores");
    drop(timer);
}

#[test]
fn a_thread_that_a_callback_starts_inherits_no_core() {
    let ours = cores();
    for pinned in [false, true] {
        for executor in every_executor() {
            let kind = format!("{executor:?}, pinned: {pinned}");
            let timer = Timer::builder().shards(2).pin_cores(pinned).executor(executor).build().unwrap();
            // Again, after the driver has slept.
            for _ in 0..3 {
                let (sender, receiver) = channel();
                timer.schedule(MS, move || sender.send(cores_of_a_new_thread()).unwrap()).unwrap();
                assert_eq!(wait_for(&receiver), ours, "{kind}");
            }
        }
    }
}

/// A pinned driver starts the thread that starts the extra threads.
#[test]
fn extra_threads_of_the_pool_inherit_no_core() {
    let ours = cores();
    let executor = Executor::Pool { threads: 1 };
    let timer = Timer::builder().shards(1).pin_cores(true).executor(executor).build().unwrap();
    let gate = Gate::default();
    let (sender, receiver) = channel();
    let blocked = gate.clone();
    timer.schedule(MS, move || blocked.pass()).unwrap();
    timer.schedule(2 * MS, move || sender.send(cores()).unwrap()).unwrap();
    assert_eq!(wait_for(&receiver), ours);
    gate.open();
}

#[test]
fn a_thread_that_an_executor_starts_inherits_no_core() {
    let ours = cores();
    for pinned in [false, true] {
        let starts = |job: Job| drop(thread::spawn(job));
        let executor = Executor::Custom(Arc::new(ExecuteFn(starts)));
        let timer = Timer::builder().shards(2).pin_cores(pinned).executor(executor).build().unwrap();
        let (sender, receiver) = channel();
        timer.schedule(MS, move || sender.send(cores()).unwrap()).unwrap();
        assert_eq!(wait_for(&receiver), ours, "pinned: {pinned}");
    }
}

#[test]
fn a_thread_that_a_waker_starts_inherits_no_core() {
    struct Starts(std::sync::Mutex<Option<std::sync::mpsc::Sender<CpuSet>>>);
    impl Wake for Starts {
        fn wake(self: Arc<Self>) {
            let sender = self.0.lock().unwrap().take().unwrap();
            sender.send(cores_of_a_new_thread()).unwrap();
        }
    }
    let ours = cores();
    for pinned in [false, true] {
        let timer = Timer::builder().shards(2).pin_cores(pinned).build().unwrap();
        let (sender, receiver) = channel();
        let waker = Waker::from(Arc::new(Starts(std::sync::Mutex::new(Some(sender)))));
        let mut sleep = std::pin::pin!(timer.sleep(100 * MS));
        assert!(sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert_eq!(wait_for(&receiver), ours, "pinned: {pinned}");
    }
}

#[test]
fn the_executor_is_dropped_with_the_original_cores() {
    let ours = cores();
    let (sender, receiver) = channel();
    let sender = std::sync::Mutex::new(sender);
    let on_drop = OnDrop(move || sender.lock().unwrap().send(cores_of_a_new_thread()).unwrap());
    let on_drop = std::sync::Mutex::new(on_drop);
    let executor = ExecuteFn(move |job: Job| {
        let _captured = &on_drop;
        job();
    });
    let builder = Timer::builder().shards(1).pin_cores(true).executor(Executor::Custom(Arc::new(executor)));
    let timer = builder.thread_name("inherit-end").build().unwrap();
    eventually("the driver is on one core", || {
        cores_of_threads("inherit-end").iter().any(|cores| core_count(cores) == 1)
    });
    drop(timer);
    assert_eq!(wait_for(&receiver), ours);
}
