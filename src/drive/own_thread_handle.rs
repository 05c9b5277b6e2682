//! How a shutdown waits for an own thread.
//!
//! It waits until the thread has ended, or until it is inside the `execute` of a custom executor. There the
//! thread may itself wait for the thread that shuts down: an executor with a bounded queue waits for its consumer. It
//! ends by itself when `execute` returns.

use std::io;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use crate::executor;
use crate::sync::lock;

/// A join handle for an own thread.
pub(crate) struct OwnThreadHandle {
    thread: JoinHandle<()>,
    /// Has a message while the thread is inside `execute`, and is disconnected when the thread ends.
    executes: Arc<Mutex<Receiver<()>>>,
}

impl OwnThreadHandle {
    /// Starts a thread that runs `drive`.
    pub(crate) fn start(name: String, drive: impl FnOnce(ExecuteSignal) + Send + 'static) -> io::Result<Self> {
        let signal = ExecuteSignal::new();
        let executes = signal.executes.clone();
        let thread = executor::spawn(name, move || drive(signal))?;
        Ok(Self { thread, executes })
    }

    /// Waits until the thread has ended or is inside `execute`. The shard must be closing already.
    pub(crate) fn join(self) {
        // An error: the thread ends, perhaps by a panic. It takes this lock only after it has sent a message.
        if lock(&self.executes).recv().is_err() {
            executor::join(self.thread);
        }
    }
}

/// Tells the handle of an own thread when that is inside `execute`, and by its drop that it ends.
pub(crate) struct ExecuteSignal {
    sender: SyncSender<()>,
    executes: Arc<Mutex<Receiver<()>>>,
}

impl ExecuteSignal {
    pub(super) fn new() -> Self {
        let (sender, receiver) = mpsc::sync_channel(1);
        Self { sender, executes: Arc::new(Mutex::new(receiver)) }
    }

    /// Runs `f`, which calls `execute` and may block.
    pub(super) fn execute<R>(&self, f: impl FnOnce() -> R) -> R {
        _ = self.sender.try_send(());
        let result = f();
        // Unless `join` has received it.
        _ = lock(&self.executes).try_recv();
        result
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::Duration;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(20);

    /// Takes a while to drop, and then records that it has.
    struct Lingers(Arc<AtomicBool>);

    impl Drop for Lingers {
        fn drop(&mut self) {
            thread::sleep(Duration::from_millis(50));
            self.0.store(true, Ordering::SeqCst);
        }
    }

    thread_local! {
        static LINGERS: Cell<Option<Lingers>> = const { Cell::new(None) };
    }

    #[test]
    fn a_thread_is_waited_for_unless_it_executes() {
        for executes in [true, false] {
            let (come, came) = mpsc::channel();
            let (leave, left) = mpsc::channel::<()>();
            let has_ended = Arc::new(AtomicBool::new(false));
            let lingers = Lingers(has_ended.clone());
            let driver = OwnThreadHandle::start("executes".to_owned(), move |signal| {
                LINGERS.set(Some(lingers));
                signal.execute(|| ());
                let wait = || {
                    come.send(()).unwrap();
                    let _ = left.recv();
                };
                if executes { signal.execute(wait) } else { wait() }
            });
            let driver = driver.unwrap();
            came.recv_timeout(TIMEOUT).unwrap();
            let (join, joined) = mpsc::channel();
            let ended = has_ended.clone();
            let joiner = thread::spawn(move || {
                driver.join();
                join.send(ended.load(Ordering::SeqCst)).unwrap();
            });
            if executes {
                joined.recv_timeout(TIMEOUT).expect("a thread that executes is not waited for");
            } else {
                let early = joined.recv_timeout(Duration::from_millis(50));
                assert!(early.is_err(), "a thread that has executed is waited for");
            }
            drop(leave);
            joiner.join().unwrap();
            assert!(executes || joined.recv().unwrap(), "the thread has ended, and not only its loop");
        }
    }
}
