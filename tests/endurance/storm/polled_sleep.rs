//! A sleep of the storm, polled without an executor.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use corewheel::{Sleep, Timer, Unfired};

use crate::fault;
use crate::record::{TimerRecord, earliest, mark};

thread_local! {
    static CLOSING: Cell<bool> = const { Cell::new(false) };
    /// Number of wake-ups by the poll that this thread is executing; `None` outside of a poll.
    static WOKEN_BY_POLL: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Shuts the timer down. The sleeps that this thread wakes meanwhile have not elapsed.
pub fn close(timer: &Timer) -> Unfired {
    CLOSING.set(true);
    let unfired = timer.shutdown();
    CLOSING.set(false);
    unfired
}

pub struct PolledSleep {
    sleep: Sleep,
    record: &'static TimerRecord,
}

/// A waker that records the wake-up as a run.
struct RecordingWaker(&'static TimerRecord);

impl Wake for RecordingWaker {
    fn wake(self: Arc<Self>) {
        if let Some(times) = WOKEN_BY_POLL.get() {
            WOKEN_BY_POLL.set(Some(times + 1));
        } else if CLOSING.get() {
            self.0.mark(mark::ENDED);
        } else {
            self.0.run();
        }
    }
}

impl PolledSleep {
    /// Creates a sleep and polls it once; `None` if it has elapsed then, or if no timer was accepted for it.
    pub fn start(timer: &Timer, delay: Duration, record: &'static TimerRecord) -> Option<Self> {
        record.mark(mark::SLEEPS);
        record.set_earliest(earliest(delay));
        let mut polled = Self { sleep: timer.sleep(delay), record };
        let mut waker = Arc::new(RecordingWaker(record));
        // The timer has the waker, or has called it.
        let accepted = polled.poll_with(waker.clone().into())
            && (Arc::get_mut(&mut waker).is_none() || record.has(mark::ENDED) || record.runs.load(Relaxed) > 0);
        accepted.then(|| {
            record.mark(mark::ACCEPTED);
            polled
        })
    }

    /// Polls the sleep with a new waker. Returns whether it is pending.
    pub fn poll(&mut self) -> bool {
        self.poll_with(Arc::new(RecordingWaker(self.record)).into())
    }

    fn poll_with(&mut self, waker: Waker) -> bool {
        let mut poll = || Pin::new(&mut self.sleep).poll(&mut Context::from_waker(&waker)) == Poll::Pending;
        WOKEN_BY_POLL.set(Some(0));
        let mut pending = poll();
        if WOKEN_BY_POLL.get() == Some(1) {
            // The sleep yielded to other tasks.
            pending = poll();
            if pending {
                fault::note(|| "a sleep yielded twice".to_owned());
            }
        }
        WOKEN_BY_POLL.set(None);
        if !pending {
            self.record.mark(mark::ENDED);
            if !self.sleep.is_shutdown() && Instant::now() < self.sleep.deadline() {
                fault::note(|| "a sleep elapsed before its deadline".to_owned());
            }
        }
        pending
    }

    /// Resets the sleep and polls it. Returns whether it is pending.
    pub fn reset(&mut self, delay: Duration) -> bool {
        self.record.lower_earliest(earliest(delay));
        if let Some(deadline) = Instant::now().checked_add(delay) {
            Pin::new(&mut self.sleep).reset(deadline);
        }
        self.poll()
    }
}

impl Drop for PolledSleep {
    fn drop(&mut self) {
        self.record.drops.fetch_add(1, Relaxed);
    }
}
