//! The queue of a pool's batches.
//!
//! No job waits while a worker is idle or while all are blocked, and no thread runs a callback on top of another.
//! Callbacks here wait for each other. If the queue keeps its promise, they all run, and the workers end when the queue
//! is closed. Otherwise shuttle finds a deadlock.
//!
//! Fails under mutations: `queue-put-no-wake`, `queue-straggler-not-assisted`, `queue-no-lookout`,
//! `queue-no-next-lookout`, `queue-alert-needs-parked`, `queue-no-rayon-tasks`, `queue-close-no-wake`,
//! `queue-loan-not-recalled`, `queue-loan-few-workers`, `queue-loan-ignores-blocked`, `queue-drive-no-search`; of its
//! growth: `growth-no-monitor`, `growth-monitor-late`, `growth-never-blocked`, `growth-close-no-wake`,
//! `growth-watches-jobs-only`, `monitor-starts-none`.

use shuttle::sync::atomic::{AtomicBool, Ordering};
use shuttle::thread;

use super::explore;
use super::pool::{Barrier, BusyShard, Callback, Callbacks, Pool, Shard};
use crate::executor::batch::Loan;
use crate::executor::job_queue::STRAGGLER_AFTER;
use crate::sync::Arc;

/// Each of three workers must get a batch, because the callbacks of three batches wait for each other, three times.
#[test]
fn no_job_waits_while_a_worker_is_idle() {
    explore(|| {
        let (pool, threads) = Pool::start(3);
        for _ in 0..3 {
            let barrier = Barrier::new(4);
            let drivers = [(); 3].map(|()| {
                let (pool, callback) = (pool.clone(), barrier.callback());
                thread::spawn(move || drop(pool.push(vec![callback])))
            });
            drivers.into_iter().for_each(|driver| driver.join().unwrap());
            barrier.wait();
        }
        pool.shut_down(threads);
    });
}

/// The callbacks of one batch wait for each other and for a second batch, so idle workers must assist.
#[test]
fn stragglers_are_assisted() {
    explore(|| {
        let (pool, threads) = Pool::start(3);
        for _ in 0..2 {
            let barrier = Barrier::new(4);
            let straggler = pool.push(vec![barrier.callback(), barrier.callback()]);
            let other = pool.push(vec![barrier.callback()]);
            pool.alert_if_unfinished(&straggler);
            pool.alert_if_unfinished(&other);
            barrier.wait();
        }
        pool.shut_down(threads);
    });
}

/// The callbacks of one batch need all workers, of which the driver calls only one.
#[test]
fn each_lookout_calls_the_next() {
    explore(|| {
        let (pool, threads) = Pool::start(3);
        let barrier = Barrier::new(4);
        let batch = pool.push([(); 3].map(|()| barrier.callback()).into());
        pool.alert_if_unfinished(&batch);
        barrier.wait();
        pool.shut_down(threads);
    });
}

/// All workers are busy when a batch is put and when its driver raises the alert. Its first callback waits for the
/// second.
#[test]
fn a_batch_that_starts_late_is_assisted() {
    explore(|| {
        let (pool, threads) = Pool::start(2);
        let (busy, gate) = (Barrier::new(3), Barrier::new(3));
        for _ in 0..2 {
            let (busy, gate) = (busy.clone(), gate.clone());
            pool.push(vec![Box::new(move |_| {
                busy.wait();
                gate.wait();
            })]);
        }
        busy.wait();
        let late = Barrier::new(3);
        let batch = pool.push(vec![late.callback(), late.callback()]);
        pool.alert_if_unfinished(&batch);
        gate.wait();
        late.wait();
        pool.shut_down(threads);
    });
}

/// A callback waits for a task that it gave to rayon. Another leaves such a task, which waits for a second one.
#[test]
fn idle_workers_run_rayon_tasks() {
    explore(|| {
        let (pool, threads) = Pool::start(2);
        let barrier = Barrier::new(3);
        let inside = barrier.clone();
        let batch = pool.push(vec![Box::new(move |pool: &Pool| {
            let task = inside.clone();
            pool.spawn(Box::new(move |_| task.wait()));
            inside.wait();
        })]);
        pool.alert_if_unfinished(&batch);
        barrier.wait();
        // The callback leaves a task that needs two workers.
        let barrier = Barrier::new(3);
        let outer = barrier.clone();
        let batch = pool.push(vec![Box::new(move |pool: &Pool| {
            let first = outer.clone();
            pool.spawn(Box::new(move |pool| {
                let second = first.clone();
                pool.spawn(Box::new(move |_| second.wait()));
                first.wait();
            }));
        })]);
        pool.alert_if_unfinished(&batch);
        barrier.wait();
        pool.shut_down(threads);
    });
}

/// All workers are blocked, twice, and callbacks wait, so extra workers run them. Idle extra workers are called again.
#[test]
fn extra_workers_run_jobs_while_all_are_blocked() {
    explore(|| {
        let (pool, threads) = Pool::start_with(2, 4);
        for _ in 0..2 {
            let barrier = Barrier::new(5);
            let batches = [(); 4].map(|()| pool.push(vec![barrier.blocking_callback()]));
            batches.iter().for_each(|batch| pool.alert_if_unfinished(batch));
            barrier.wait();
        }
        assert!(pool.queue.extra_threads().needed >= 2);
        pool.shut_down(threads);
    });
}

/// The callbacks of one batch block one after the other.
#[test]
fn extra_workers_assist_a_straggler() {
    explore(|| {
        let (pool, threads) = Pool::start_with(1, 4);
        let barrier = Barrier::new(4);
        let batch = pool.push([(); 3].map(|()| barrier.blocking_callback()).into());
        pool.alert_if_unfinished(&batch);
        barrier.wait();
        pool.shut_down(threads);
    });
}

/// The lookout is called for a job, and then blocks in the straggler, so there is no lookout.
#[test]
fn extra_workers_start_when_the_lookout_takes_a_job() {
    explore(|| {
        let (pool, threads) = Pool::start_with(2, 4);
        let barrier = Barrier::new(4);
        let batch = pool.push([(); 3].map(|()| barrier.blocking_callback()).into());
        pool.alert_if_unfinished(&batch);
        pool.push(vec![Box::new(|_| ())]);
        barrier.wait();
        pool.shut_down(threads);
    });
}

/// The only worker is busy, but not blocked, when a batch is put and when its driver raises the alert.
///
/// The worker then begins the batch, whose first callback waits for the second. No thread raises the alert again.
#[test]
fn a_batch_that_starts_late_gets_an_extra_worker() {
    explore(|| {
        let (pool, threads) = Pool::start_with(1, 2);
        let (busy, gate) = (Barrier::new(2), Barrier::new(2));
        let (begun, opened) = (busy.clone(), gate.clone());
        pool.push(vec![Box::new(move |_| {
            begun.wait();
            opened.wait();
        })]);
        busy.wait();
        let late = Barrier::new(3);
        let batch = pool.push(vec![late.blocking_callback(), late.blocking_callback()]);
        pool.alert_if_unfinished(&batch);
        gate.wait();
        late.wait();
        pool.shut_down(threads);
    });
}

/// Busy workers that are not asleep get no extra workers, however long they run.
#[test]
fn busy_workers_get_no_extra_workers() {
    explore(|| {
        let (pool, threads) = Pool::start_with(2, 4);
        let gate = Barrier::new(3);
        let batches = [(); 2].map(|()| pool.push(vec![gate.callback()]));
        let waiting = pool.push(vec![Box::new(|_| ())]);
        batches.iter().chain([&waiting]).for_each(|batch| pool.alert_if_unfinished(batch));
        gate.wait();
        assert_eq!(pool.queue.extra_threads().needed, 0);
        pool.shut_down(threads);
    });
}

/// A worker that drives a shard is recalled when all workers are needed. While it drives, the other shard has a worker.
#[test]
fn workers_that_drive_are_recalled_on_demand() {
    explore(|| {
        let (pool, threads) = Pool::start(2);
        let (barrier, lent) = (Barrier::new(3), Barrier::new(2));
        let batch = || Callbacks::new(&pool, vec![lent.callback()]);
        let shards = [(); 2].map(|()| Shard::new(&pool, Vec::new()));
        // Both workers may be idle by now, or one, or none.
        let is_lent = pool.queue.push_with_loan(Arc::new(batch()), shards[0].clone(), 2, pool.now());
        lent.wait();
        let batches = [(); 2].map(|()| pool.push(vec![barrier.callback()]));
        batches.iter().for_each(|batch| pool.alert_if_unfinished(batch));
        barrier.wait();
        if is_lent {
            assert!(*shards[0].is_recalled.lock().unwrap());
        }
        pool.shut_down(threads);
    });
}

/// A callback waits for a task that it gave to rayon, while the only other worker drives a shard that is always busy.
#[test]
fn workers_that_drive_run_rayon_tasks() {
    explore(|| {
        let (pool, threads) = Pool::start(2);
        let (begun, ended, done) = (Barrier::new(2), Barrier::new(2), Arc::new(AtomicBool::new(false)));
        let (started, ending, is_done) = (begun.clone(), ended.clone(), done.clone());
        pool.push(vec![Box::new(move |pool: &Pool| {
            started.wait();
            pool.wait_for_task();
            is_done.store(true, Ordering::SeqCst);
            ending.wait();
        })]);
        begun.wait();
        let first = Callbacks::new(&pool, vec![Box::new(|_| ())]);
        assert!(pool.queue.push_with_loan(Arc::new(first), BusyShard::new(&pool, &done), 1, pool.now()));
        ended.wait();
        pool.shut_down(threads);
    });
}

/// With two shards and one worker that is busy for long, the other worker is lent to neither shard.
#[test]
fn no_worker_drives_if_another_shard_needs_it() {
    explore(|| {
        let (pool, threads) = Pool::start(2);
        let (busy, gate, barrier) = (Barrier::new(2), Barrier::new(2), Barrier::new(2));
        let (started, opened) = (busy.clone(), gate.clone());
        let block: Callback = Box::new(move |_| {
            started.wait();
            opened.wait();
        });
        pool.push(vec![block]);
        busy.wait();
        let shard = Shard::new(&pool, Vec::new());
        let first = Callbacks::new(&pool, vec![Box::new(|_| ())]);
        assert!(!pool.queue.push_with_loan(Arc::new(first), shard, 2, pool.now() + STRAGGLER_AFTER));
        pool.push(vec![barrier.callback()]);
        barrier.wait();
        gate.wait();
        pool.shut_down(threads);
    });
}

/// A worker that drives runs callbacks that block. They get an extra worker like any other callbacks.
#[test]
fn callbacks_of_a_lent_shard_are_assisted() {
    explore(|| {
        let (pool, threads) = Pool::start_with(1, 2);
        let (begun, barrier) = (Barrier::new(2), Barrier::new(3));
        let (started, waiting) = (begun.clone(), barrier.clone());
        let first: Callback = Box::new(move |_| {
            started.wait();
            waiting.wait_asleep();
        });
        let shard = Shard::new(&pool, vec![first, barrier.blocking_callback()]);
        let lent = Callbacks::new(&pool, vec![Box::new(|_| ())]);
        let batch = shard.batch.lock().unwrap().clone();
        if pool.queue.push_with_loan(Arc::new(lent), shard.clone(), 1, pool.now()) {
            // The driver's own thread notices that the worker does not return, and raises the alert for its batch.
            begun.wait();
            batch.iter().for_each(|batch| pool.alert_if_unfinished(batch));
            barrier.wait();
        }
        drop(batch);
        shard.recall();
        pool.shut_down(threads);
    });
}
