//! Unit tests of `service`: forks, the list of queues, and drivers that panic.

use std::sync::Weak;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{self, Sender};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use super::*;
use crate::{ManualClock, Timer};

const SEC: Duration = Duration::from_secs(1);

/// A task that records that it was woken.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, SeqCst);
    }
}

/// Another thread of the parent may have a lock during the fork. The child does not have that thread.
#[test]
#[cfg(target_os = "linux")]
fn a_forked_child_waits_for_no_lock_of_its_parent() {
    use nix::sys::signal::{Signal, kill};
    use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
    use nix::unistd::{ForkResult, fork};

    let timer = Timer::new().unwrap();
    // SAFETY: the child may allocate and use the standard library after the fork, because Linux's allocator and
    // library support that in a process with several threads. It ends without any destructor.
    let fork_and_use = || match unsafe { fork() }.unwrap() {
        ForkResult::Parent { child } => child,
        ForkResult::Child => {
            let queue = crate::DelayQueue::new(&timer);
            let is_refused = queue.push(SEC, ()).is_err_and(|error| error.is_shutdown());
            let is_passed = is_refused && queue.pop().is_none() && timer.stats().extra_threads == 0;
            // SAFETY: the call has no preconditions.
            unsafe { libc::_exit(if is_passed { 42 } else { 1 }) }
        }
    };
    let pool = timer.0.pool.as_ref().unwrap();
    let locked = lock(&timer.0.queues);
    let child = pool.queue().while_locked(fork_and_use);
    drop(locked);
    for _ in 0..2000 {
        thread::sleep(SEC / 100);
        match waitpid(child, Some(WaitPidFlag::WNOHANG)).unwrap() {
            WaitStatus::StillAlive => {}
            status => return assert_eq!(status, WaitStatus::Exited(child, 42)),
        }
    }
    kill(child, Signal::SIGKILL).unwrap();
    panic!("the child hangs");
}

/// Counts how often a queue was closed.
impl QueueRef for Weak<AtomicUsize> {
    fn exists(&self) -> bool {
        self.strong_count() > 0
    }

    fn begin_close(&self) {}

    fn close(&self) -> Option<Box<dyn FnOnce()>> {
        self.upgrade()?.fetch_add(1, SeqCst);
        None
    }
}

#[test]
fn dropped_queues_are_forgotten_and_the_others_closed_once() {
    let timer = Timer::builder().clock(ManualClock::new()).build().unwrap();
    let kept = [(); 3].map(|()| Arc::new(AtomicUsize::new(0)));
    kept.iter().for_each(|queue| timer.0.add_queue(Arc::downgrade(queue)));
    (0..1000).for_each(|_| timer.0.add_queue(Arc::downgrade(&Arc::new(AtomicUsize::new(0)))));
    assert!(lock(&timer.0.queues).len() <= 8);
    timer.shutdown();
    timer.shutdown();
    assert!(kept.iter().all(|queue| queue.load(SeqCst) == 1));
}

/// Makes the driver of the shard panic when the next timer expires.
fn break_shard(timer: &Timer, shard: usize) {
    timer.0.shards[shard].fault.store(true, SeqCst);
}

/// Runs `f`, and panics if it does not return in time.
fn in_time<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(f()));
    receiver.recv_timeout(20 * SEC).expect("it does not hang")
}

/// Returns a timer in virtual time, with its clock, and the messages that its `on_panic` receives.
fn timer_that_reports(shards: usize, executor: Executor) -> (Timer, ManualClock, mpsc::Receiver<String>) {
    let clock = ManualClock::new();
    let (sender, reports) = mpsc::channel();
    let sender: Mutex<Sender<String>> = Mutex::new(sender);
    let report = move |panicked: crate::Panicked| {
        assert_eq!(panicked.callback, None);
        sender.lock().unwrap().send(*panicked.payload.downcast().unwrap()).unwrap();
    };
    let builder = Timer::builder().clock(clock.clone()).shards(shards).executor(executor).on_panic(report);
    (builder.build().unwrap(), clock, reports)
}

#[test]
fn a_driver_that_panics_closes_its_shard_and_loses_no_timer() {
    for executor in [Executor::Inline, Executor::Pool { threads: 2 }] {
        let (timer, clock, reports) = timer_that_reports(1, executor);
        let ran = Arc::new(AtomicUsize::new(0));
        let kept = Arc::new(());
        let start = clock.now();
        let handles: Vec<_> = (1..=4_u32)
            .map(|secs| {
                let (ran, kept) = (ran.clone(), kept.clone());
                let run = move || {
                    ran.fetch_add(1, SeqCst);
                    drop(kept);
                };
                timer.schedule(secs * SEC, run).unwrap()
            })
            .collect();
        let every = timer.schedule_at_fixed_rate(3 * SEC, SEC, || ()).unwrap();
        let mut sleep = Box::pin(timer.sleep(10 * SEC));
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(woken.clone());
        assert_eq!(sleep.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Pending);
        let mut context = Context::from_waker(Waker::noop());
        let mut soon = Box::pin(timer.sleep(2 * SEC));
        assert_eq!(soon.as_mut().poll(&mut context), Poll::Pending);

        let advancing = clock.clone();
        in_time(move || advancing.advance(SEC));
        assert_eq!(ran.load(SeqCst), 1, "the first has run");
        break_shard(&timer, 0);
        // Timers that expire when the driver panics have already left the wheel.
        let advancing = clock.clone();
        in_time(move || {
            advancing.advance(2 * SEC);
            advancing.advance(2 * SEC);
        });
        let report = reports.recv_timeout(20 * SEC).unwrap();
        assert!(report.contains("corewheel-0") && report.contains("a test has broken the wheel"), "{report}");
        assert_eq!((timer.stats().panicked, ran.load(SeqCst)), (1, 1));
        assert!(woken.0.load(SeqCst), "the task of a sleep that is due later is woken as well");

        assert!(timer.schedule(Duration::ZERO, || ()).unwrap_err().is_shutdown());
        assert!(!handles[3].reset(SEC) && !every.reset(SEC), "no timer is accepted any more");
        assert_eq!(soon.as_mut().poll(&mut context), Poll::Ready(()));
        assert_eq!(sleep.as_mut().poll(&mut context), Poll::Ready(()));
        assert!(sleep.is_shutdown());
        assert_eq!(clock.next_deadline(), None, "none of them will expire");
        assert!(handles[3].is_pending() && handles[3].cancel());
        assert_eq!(Arc::strong_count(&kept), 3, "one has run, and one was cancelled");
        assert_eq!(timer.len(), 3, "they wait for the shutdown");

        let shutting = timer.clone();
        let unfired = in_time(move || shutting.shutdown());
        assert_eq!(unfired.map(|timer| timer.deadline - start).collect::<Vec<_>>(), [2 * SEC, 3 * SEC, 3 * SEC]);
        assert_eq!((Arc::strong_count(&kept), timer.len()), (1, 0));
        let stats = timer.stats();
        assert_eq!(stats.scheduled, stats.completed + stats.cancelled + stats.unfired);
        assert_eq!((stats.cancelled, stats.unfired), (1, 3));
    }
}

#[test]
fn a_driver_that_panics_leaves_other_shards_alone() {
    let (timer, clock, reports) = timer_that_reports(2, Executor::default());
    break_shard(&timer, 0);
    let (in_first, elsewhere) = (timer.clone(), timer.clone());
    // Each new thread has the next shard as its home.
    thread::spawn(move || _ = in_first.schedule(SEC, || ()).unwrap()).join().unwrap();
    let (sender, receiver) = mpsc::channel();
    let schedule = move || _ = elsewhere.schedule(SEC, move || sender.send(()).unwrap()).unwrap();
    thread::spawn(schedule).join().unwrap();
    in_time(move || clock.advance(SEC));
    assert_eq!((reports.iter().take(1).count(), receiver.try_iter().count()), (1, 1));
    let shutting = timer.clone();
    assert_eq!(in_time(move || shutting.shutdown().len()), 1);
    assert_eq!(timer.stats().completed, 1);
}

/// The own thread of the first shard checks the pool. The only worker is blocked, so the pool must grow.
#[test]
#[cfg(target_os = "linux")]
fn a_driver_that_panics_leaves_the_checks_to_a_thread() {
    let builder = Timer::builder().shards(2).pin_cores(true).executor(Executor::Pool { threads: 1 });
    let timer = builder.on_panic(drop).build().unwrap();
    let in_first = timer.schedule(3600 * SEC, || ()).unwrap();
    let (sender, receiver) = mpsc::channel();
    let schedule = || timer.schedule(3600 * SEC, move || sender.send(()).unwrap()).unwrap();
    let in_second = thread::scope(|scope| scope.spawn(schedule).join().unwrap());
    let first = timer.0.shards[0].clone();
    let (end, ended) = mpsc::channel();
    let wait = move || {
        in_second.reset(Duration::ZERO);
        first.fault.store(true, SeqCst);
        in_first.reset(Duration::ZERO);
        end.send(receiver.recv_timeout(20 * SEC)).unwrap();
    };
    timer.schedule(Duration::ZERO, wait).unwrap();
    ended.recv().unwrap().expect("the pool grows");
}

#[test]
fn a_driver_that_panics_under_load_closes_its_shard() {
    let (sender, reports) = mpsc::channel();
    let sender: Mutex<Sender<String>> = Mutex::new(sender);
    let report = move |panicked: crate::Panicked| {
        assert_eq!(panicked.callback, None);
        sender.lock().unwrap().send(*panicked.payload.downcast().unwrap()).unwrap();
    };
    let executor = Executor::Pool { threads: 1 };
    let timer = Timer::builder().shards(1).executor(executor).on_panic(report).build().unwrap();
    let every = timer.schedule_at_fixed_rate(SEC / 1000, SEC / 1000, || ()).unwrap();
    thread::sleep(SEC / 50);
    break_shard(&timer, 0);
    let report = in_time(move || reports.recv().unwrap());
    assert!(report.contains("corewheel-") && report.contains("a test has broken the wheel"), "{report}");
    assert!(timer.schedule(Duration::ZERO, || ()).unwrap_err().is_shutdown());
    let shutting = timer.clone();
    assert_eq!(in_time(move || shutting.shutdown().len()), 1);
    assert!(!every.is_pending());
}

#[test]
fn a_shard_whose_driver_has_panicked_takes_no_permit() {
    let clock = ManualClock::new();
    let builder = Timer::builder().clock(clock.clone()).shards(1).executor(Executor::Inline);
    let timer = builder.max_pending(2).on_panic(drop).build().unwrap();
    timer.schedule(SEC, || ()).unwrap();
    break_shard(&timer, 0);
    in_time(move || clock.advance(SEC));
    for _ in 0..3 {
        assert!(timer.schedule(SEC, || ()).unwrap_err().is_shutdown(), "one of two permits is taken");
    }
}

#[test]
fn a_job_that_is_dropped_when_its_shard_is_closed_leaves_the_timer_to_the_shutdown() {
    /// An executor that keeps its jobs, and runs none.
    #[derive(Default)]
    struct Keeps(Mutex<Vec<Box<dyn FnOnce() + Send>>>);
    impl crate::Execute for Keeps {
        fn execute(&self, job: Box<dyn FnOnce() + Send>) {
            self.0.lock().unwrap().push(job);
        }
    }
    let keeps = Arc::new(Keeps::default());
    let (sender, reports) = mpsc::channel();
    let sender = Mutex::new(sender);
    let builder = Timer::builder().shards(1).executor(Executor::Custom(keeps.clone()));
    let timer = builder.on_panic(move |_| sender.lock().unwrap().send(()).unwrap()).build().unwrap();
    timer.schedule(Duration::ZERO, || ()).unwrap();
    let has_job = || {
        (0..10_000).any(|_| {
            thread::sleep(SEC / 1000);
            !keeps.0.lock().unwrap().is_empty()
        })
    };
    assert!(has_job());
    break_shard(&timer, 0);
    timer.schedule(Duration::ZERO, || ()).unwrap();
    in_time(move || reports.recv().unwrap());
    keeps.0.lock().unwrap().clear();
    assert_eq!((timer.stats().cancelled, timer.len()), (0, 2));
    assert_eq!(in_time(move || timer.shutdown().len()), 2);
}

#[test]
fn a_drop_after_a_driver_has_panicked_returns() {
    let (timer, clock, _reports) = timer_that_reports(1, Executor::default());
    let kept = Arc::new(());
    let held = kept.clone();
    timer.schedule(SEC, move || drop(held)).unwrap();
    break_shard(&timer, 0);
    in_time(move || {
        clock.advance(SEC);
        drop(timer);
    });
    assert_eq!(Arc::strong_count(&kept), 1);
}
