//! The queue of a pool's batches.
//!
//! No job waits while a worker is parked or while all are blocked, and no thread runs a callback on top of another.
//! Callbacks here wait for each other. If the queue keeps its promise, they all run, and the workers end when the queue
//! is closed. Otherwise shuttle finds a deadlock.

use std::time::Duration;

use shuttle::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use shuttle::thread;

use super::explore;
use super::pool::{Barrier, Callback, Pool};
use crate::sync::Arc;

/// Each of three workers must get a batch, because the callbacks of three batches wait for each other, three times.
#[test]
fn no_job_waits_while_a_worker_is_parked() {
    explore(|| {
        let (pool, threads) = Pool::start(3);
        for _ in 0..3 {
            let barrier = Barrier::new(4);
            let drivers = [(); 3].map(|()| {
                let (pool, callback) = (pool.clone(), barrier.callback());
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
    Box::new(move |_| {
        begun.wait();
        gate.wait();
    })
}

/// A callback waits for a task that it gave to rayon. Another leaves such a task, which waits for a second one.
#[test]
fn idle_workers_run_rayon_tasks() {
    explore(|| {
        let (pool, threads) = Pool::start(2);
        let end = Barrier::new(2);
        let ending = end.clone();
        pool.push(vec![Box::new(move |pool: &Pool| {
            pool.wait_for_task();
            ending.wait();
        })]);
        end.wait();
        let end = Barrier::new(2);
        let ending = end.clone();
        pool.push(vec![Box::new(move |pool: &Pool| {
            let ending = ending.clone();
            pool.spawn(Box::new(move |pool| {
                pool.wait_for_task();
                ending.wait();
            }));
        })]);
        end.wait();
        pool.shut_down(threads);
    });
}

/// A worker parks while the other is in a callback, and no driver watches any more. Only then the callback waits for a task
/// that it gave to rayon.
#[test]
fn a_worker_that_parks_late_runs_rayon_tasks() {
    explore(|| {
        let (pool, threads) = Pool::start(2);
        let (busy, gate, go, end) = (Barrier::new(3), Barrier::new(2), Barrier::new(2), Barrier::new(2));
        pool.push(vec![busy_until(&busy, &gate)]);
        let (begun, going, ending) = (busy.clone(), go.clone(), end.clone());
        pool.push(vec![Box::new(move |pool: &Pool| {
            begun.wait();
            going.wait();
            pool.wait_for_task();
            ending.wait();
        })]);
        busy.wait();
        pool.wait_until_the_leader_rests();
        gate.wait();
        go.wait();
        end.wait();
        pool.shut_down(threads);
    });
}

/// A callback gives each worker a task, and ends at once. Other batches make workers park at any time.
#[test]
fn a_broadcast_reaches_all_workers() {
    const WORKERS: usize = 4;
    explore(|| {
        let (pool, threads) = Pool::start(WORKERS);
        let end = Barrier::new(WORKERS + 1);
        let ending = end.clone();
        pool.push(vec![Box::new(|_| ())]);
        pool.push(vec![Box::new(move |pool| {
            let ending = ending.clone();
            pool.broadcast(move |_| drop(ending.arrive()));
        })]);
        pool.push(vec![Box::new(|_| ())]);
        end.wait();
        pool.shut_down(threads);
    });
}

/// The same with tasks that wait for each other.
#[test]
fn a_broadcast_reaches_all_workers_at_once() {
    const WORKERS: usize = 3;
    explore(|| {
        let (pool, threads) = Pool::start(WORKERS);
        let end = Barrier::new(WORKERS + 1);
        let ending = end.clone();
        pool.push(vec![Box::new(move |pool| {
            let ending = ending.clone();
            pool.broadcast(move |_| ending.wait());
        })]);
        end.wait();
        pool.shut_down(threads);
    });
}

/// The second part gives work to rayon, and waits until another worker does it.
#[test]
fn a_part_of_a_broadcast_waits_for_another_worker() {
    explore(|| {
        let (pool, threads) = Pool::start(2);
        for _ in 0..2 {
            let (end, parts) = (Barrier::new(2), Arc::new(AtomicUsize::new(0)));
            let ending = end.clone();
            pool.push(vec![Box::new(move |pool| {
                let (ending, parts) = (ending.clone(), parts.clone());
                pool.broadcast(move |pool| {
                    if parts.fetch_add(1, Ordering::SeqCst) == 1 {
                        pool.wait_for_task();
                        drop(ending.arrive());
                    }
                });
            })]);
            end.wait();
        }
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
            (0..4).for_each(|_| pool.push(vec![barrier.blocking_callback()]));
            barrier.wait();
        }
        assert!(pool.queue.extra_threads().needed >= 2);
        pool.shut_down(threads);
    });
}

/// The callbacks of one batch block one after the other.
#[test]
fn extra_workers_assist_a_late_batch() {
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
fn a_batch_that_starts_late_gets_an_extra_worker() {
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

/// Busy workers that are not asleep get no extra workers, however long they run. Nor does one worker that is blocked,
/// while another is parked.
#[test]
fn only_blocked_workers_get_extra_workers() {
    explore(|| {
        let (pool, threads) = Pool::start_with(2, 4);
        let gate = Barrier::new(3);
        (0..2).for_each(|_| pool.push(vec![gate.callback()]));
        pool.push(vec![Box::new(|_| ())]);
        pool.sleep(Duration::from_millis(10));
        gate.wait();
        let gate = Barrier::new(2);
        pool.push(vec![gate.blocking_callback()]);
        pool.sleep(Duration::from_millis(10));
        gate.wait();
        assert_eq!(pool.queue.extra_threads().needed, 0);
        pool.shut_down(threads);
    });
}

/// A callback waits for a task that it gave to rayon, while there are always jobs for the only other worker.
#[test]
fn a_worker_for_which_jobs_wait_runs_rayon_tasks() {
    /// Returns a batch that dispatches another such batch, until `done`.
    fn endless(pool: &Arc<Pool>, done: &Arc<AtomicBool>) -> Vec<Callback> {
        let (next, done) = (pool.clone(), done.clone());
        vec![Box::new(move |pool| {
            pool.advance(Duration::from_micros(500));
            thread::yield_now();
            if !done.load(Ordering::SeqCst) {
                next.push(endless(&next, &done));
            }
        })]
    }

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
        pool.push(endless(&pool, &done));
        ended.wait();
        pool.shut_down(threads);
    });
}
