//! `DriverThread`: the driver's own thread, as a shutdown waits for it.
//!
//! [`drive`](mod@super::drive) runs on this thread. A shutdown waits until the thread has ended, or until it is inside
//! the `execute` of a custom executor. There the driver may itself wait for the thread that shuts down: an executor
//! with a bounded queue waits for its consumer. Such a driver ends by itself when `execute` returns.

use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

use crate::executor;
use crate::sync::{lock, unpoisoned};

/// A join handle for a driver's thread.
pub(crate) struct DriverThread {
    thread: JoinHandle<()>,
    status: DriverStatus,
}

/// What the driver's thread is doing, shared with the shutdown.
#[derive(Clone, Default)]
pub(crate) struct DriverStatus(Arc<Inner>);

#[derive(Default)]
struct Inner {
    inside: Mutex<State>,
    changed: Condvar,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum State {
    #[default]
    Driving,
    Executing,
    Ended,
}

impl DriverThread {
    /// Starts a thread that runs `drive`.
    pub(crate) fn start(name: String, drive: impl FnOnce(&DriverStatus) + Send + 'static) -> io::Result<Self> {
        let status = DriverStatus::default();
        let its_status = status.clone();
        let thread = executor::spawn(name, move || {
            let guard = EndGuard(its_status);
            drive(&guard.0);
        })?;
        Ok(Self { thread, status })
    }

    /// Waits until the thread has ended or is inside `execute`. The shard must be closing already.
    pub(crate) fn join(self) {
        let Inner { inside, changed } = &*self.status.0;
        let driving = |state: &mut State| *state == State::Driving;
        let state = unpoisoned(changed.wait_while(lock(inside), driving));
        let ended = *state == State::Ended;
        drop(state);
        if ended {
            executor::join(self.thread);
        }
    }
}

impl DriverStatus {
    /// Runs `f`, which calls `execute` and may block.
    pub(super) fn execute<R>(&self, f: impl FnOnce() -> R) -> R {
        self.set(State::Executing);
        let result = f();
        self.set(State::Driving);
        result
    }

    fn set(&self, state: State) {
        *lock(&self.0.inside) = state;
        self.0.changed.notify_all();
    }
}

/// Sets the status when the thread ends, also by a panic.
struct EndGuard(DriverStatus);

impl Drop for EndGuard {
    fn drop(&mut self) {
        self.0.set(State::Ended);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(20);

    #[test]
    fn a_thread_is_waited_for_unless_it_executes() {
        for executes in [true, false] {
            let (come, came) = mpsc::channel();
            let (leave, left) = mpsc::channel::<()>();
            let driver = DriverThread::start("executes".to_owned(), move |status| {
                status.execute(|| ());
                let wait = || {
                    come.send(()).unwrap();
                    let _ = left.recv();
                };
                if executes { status.execute(wait) } else { wait() }
            });
            let driver = driver.unwrap();
            came.recv_timeout(TIMEOUT).unwrap();
            let (join, joined) = mpsc::channel();
            let joiner = thread::spawn(move || {
                driver.join();
                join.send(()).unwrap();
            });
            if executes {
                joined.recv_timeout(TIMEOUT).expect("a thread that executes is not waited for");
            } else {
                let early = joined.recv_timeout(Duration::from_millis(50));
                assert!(early.is_err(), "a thread that has executed is waited for");
            }
            drop(leave);
            joiner.join().unwrap();
        }
    }
}
