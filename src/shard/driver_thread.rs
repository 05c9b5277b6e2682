//! The thread of a driver, as a shutdown sees it.
//!
//! A shutdown waits for the driver's thread to end, unless that is inside the `execute` of a custom executor: there it may
//! be waiting for the very thread that shuts down, as the consumer of a bounded queue does. Such a driver ends by itself
//! when `execute` returns.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

use crate::executor;

/// The handle of a driver's thread.
pub(crate) struct DriverThread {
    thread: JoinHandle<()>,
    whereabouts: Whereabouts,
}

/// Whether the driver is inside `execute`. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Whereabouts(Arc<Inner>);

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
    pub(crate) fn start(name: String, drive: impl FnOnce(&Whereabouts) + Send + 'static) -> io::Result<Self> {
        let whereabouts = Whereabouts::default();
        let told = whereabouts.clone();
        let thread = executor::spawn(name, move || {
            let end = End(told);
            drive(&end.0);
        })?;
        Ok(Self { thread, whereabouts })
    }

    /// Waits until the thread has ended, or is inside `execute`. Its shard must be closing.
    pub(crate) fn join(self) {
        let Inner { inside, changed } = &*self.whereabouts.0;
        let driving = |state: &mut State| *state == State::Driving;
        let state = changed.wait_while(lock(inside), driving).unwrap_or_else(|poisoned| poisoned.into_inner());
        let ended = *state == State::Ended;
        drop(state);
        if ended {
            executor::join(self.thread);
        }
    }
}

impl Whereabouts {
    /// Runs `f`, which may wait for anything.
    pub(crate) fn execute<R>(&self, f: impl FnOnce() -> R) -> R {
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

/// Says at the end of the thread that it has come, also by a panic.
struct End(Whereabouts);

impl Drop for End {
    fn drop(&mut self) {
        self.0.set(State::Ended);
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    #[test]
    fn a_thread_is_waited_for_unless_it_executes() {
        for executes in [true, false] {
            let (come, came) = mpsc::channel();
            let (leave, left) = mpsc::channel::<()>();
            let driver = DriverThread::start("executes".to_owned(), move |whereabouts| {
                whereabouts.execute(|| ());
                let wait = || {
                    come.send(()).unwrap();
                    let _ = left.recv();
                };
                if executes { whereabouts.execute(wait) } else { wait() }
            });
            let driver = driver.unwrap();
            came.recv_timeout(PATIENCE).unwrap();
            let (join, joined) = mpsc::channel();
            let joiner = thread::spawn(move || {
                driver.join();
                join.send(()).unwrap();
            });
            if executes {
                joined.recv_timeout(PATIENCE).expect("a thread that executes is not waited for");
            } else {
                let early = joined.recv_timeout(Duration::from_millis(50));
                assert!(early.is_err(), "a thread that has executed is waited for");
            }
            drop(leave);
            joiner.join().unwrap();
        }
    }
}
