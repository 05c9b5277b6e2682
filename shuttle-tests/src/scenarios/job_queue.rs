//! The queue of a pool's batches.
//!
//! No job waits while a worker is idle or while all are blocked, and no thread runs a callback on top of another.
//! Callbacks here wait for each other. If the queue keeps its promise, they all run, and the workers end when the queue
//! is closed. Otherwise shuttle finds a deadlock.

use std::time::Duration;

use shuttle::thread;

use super::explore;
use super::pool::{Barrier, Callback, Pool};

/// Each of three workers must get a batch, because the callbacks of three batches wait for each other, three times.
#[test]
fn no_job_waits_while_a_worker_is_idle() {
    explore(|| {
        let (pool, threads) = Pool::start(3);
        for _ in 0..3 {
            let barrier = Barrier::new(4);
            let drivers = [(); 3].map(|()| {
                let pool = pool.clone();
                let callback = barrier.callback();
                thread::spawn(move || pool.push(vec![callback]))
            });
            drivers.into_iter().for_each(|driver| driver.join().unwrap());
            barrier.wait();
        }
        pool.shut_down(threads);
    });
}

/// The callbacks of one batch wait for each other and for a second batch, so all idle workers must assist.
#[test]
fn late_batches_are_assisted() {
    explore(|| {
        let (pool, threads) = Pool::start(4);
        for _ in 0..2 {
            let barrier = Barrier::new(5);
            pool.push([(); 3].map(|()| barrier.callback()).into());
            pool.push(vec![barrier.callback()]);
            barrier.wait();
        }
        pool.shut_down(threads);
    });
}

/// All workers are busy for long when a batch is dispatched. Its first callback waits for the second.
#[test]
fn a_batch_that_starts_late_is_assisted() {
    explore(|| {
        let (pool, threads) = Pool::start(2);
        let (busy, gate) = (Barrier::new(3), Barrier::new(3));
        for _ in 0..2 {
            pool.push(vec![busy_until(&busy, &gate)]);
        }
        busy.wait();
        let late = Barrier::new(3);
        pool.push(vec![late.callback(), late.callback()]);
        pool.wait_until_the_leader_rests();
        gate.wait();
        late.wait();
        pool.shut_down(threads);
    });
}

/// Returns a callback that comes to one barrier and then waits at another.
fn busy_until(begun: &Barrier, gate: &Barrier) -> Callback {
    let (begun, gate) = (begun.clone(), gate.clone());
    Box::new(move || {
        begun.wait();
        gate.wait();
    })
}

/// All workers are blocked, twice, and callbacks wait, so extra threads run them. Idle extra threads are called again.
#[test]
fn extra_threads_run_jobs_while_all_are_blocked() {
    explore(|| {
        let (pool, threads) = Pool::start_with(2, 4);
        for _ in 0..2 {
            let barrier = Barrier::new(5);
            (0..4).for_each(|_| pool.push(vec![barrier.blocking_callback()]));
            barrier.wait();
        }
        assert!(pool.queue.extra_threads().1 >= 2);
        pool.shut_down(threads);
    });
}

/// The callbacks of one batch block one after the other.
#[test]
fn extra_threads_assist_a_late_batch() {
    explore(|| {
        let (pool, threads) = Pool::start_with(1, 4);
        let barrier = Barrier::new(4);
        pool.push([(); 3].map(|()| barrier.blocking_callback()).into());
        barrier.wait();
        pool.shut_down(threads);
    });
}

/// The only worker is busy, but not blocked, when a batch is dispatched. It then begins the batch, whose first callback
/// waits for the second.
#[test]
fn a_batch_that_starts_late_gets_an_extra_thread() {
    explore(|| {
        let (pool, threads) = Pool::start_with(1, 2);
        let (busy, gate) = (Barrier::new(2), Barrier::new(2));
        pool.push(vec![busy_until(&busy, &gate)]);
        busy.wait();
        let late = Barrier::new(3);
        pool.push(vec![late.blocking_callback(), late.blocking_callback()]);
        gate.wait();
        late.wait();
        pool.shut_down(threads);
    });
}

/// Busy workers that are not asleep get no extra threads, however long they run. Nor does one worker that is blocked,
/// while another is idle.
#[test]
fn only_blocked_workers_get_extra_threads() {
    explore(|| {
        let (pool, threads) = Pool::start_with(2, 4);
        let gate = Barrier::new(3);
        (0..2).for_each(|_| pool.push(vec![gate.callback()]));
        pool.push(vec![Box::new(|| ())]);
        pool.sleep(Duration::from_millis(10));
        gate.wait();
        let gate = Barrier::new(2);
        pool.push(vec![gate.blocking_callback()]);
        pool.wait_until_the_leader_rests();
        gate.wait();
        assert_eq!(pool.queue.extra_threads().1, 0);
        pool.shut_down(threads);
    });
}
