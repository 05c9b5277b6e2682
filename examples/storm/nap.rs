//! A sleep of the storm, polled by hand.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use corewheel::{Sleep, Timer, Unfired};

use crate::fault;
use crate::life::{Life, floor, mark};

thread_local! {
    static CLOSING: Cell<bool> = const { Cell::new(false) };
    /// How often a task was woken by the poll that this thread is in the middle of.
    static WOKEN_BY_POLL: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Shuts the timer down. Sleeps that are woken meanwhile by this thread are woken before their time.
pub fn close(timer: &Timer) -> Unfired {
    CLOSING.set(true);
    let unfired = timer.shutdown();
    CLOSING.set(false);
    unfired
}

pub struct Nap {
    sleep: Sleep,
    life: &'static Life,
}

struct Alarm(&'static Life);

impl Wake for Alarm {
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

impl Nap {
    /// A sleep that has been polled once, or `None` if it was over then.
    pub fn begin(timer: &Timer, delay: Duration, life: &'static Life) -> Option<Self> {
        life.mark(mark::SLEEPS);
        life.aim(floor(delay));
        let mut nap = Self { sleep: timer.sleep(delay), life };
        nap.poll().then(|| {
            life.mark(mark::ACCEPTED);
            nap
        })
    }

    /// Polls it, mostly with another waker than before. Returns whether it is pending.
    pub fn poll(&mut self) -> bool {
        let waker = Waker::from(Arc::new(Alarm(self.life)));
        let mut poll = || Pin::new(&mut self.sleep).poll(&mut Context::from_waker(&waker)) == Poll::Pending;
        WOKEN_BY_POLL.set(Some(0));
        let mut pending = poll();
        if WOKEN_BY_POLL.get() == Some(1) {
            // The sleep gave way to other tasks.
            pending = poll();
            if pending {
                fault::note(|| "a sleep gave way twice".to_owned());
            }
        }
        WOKEN_BY_POLL.set(None);
        if !pending {
            self.life.mark(mark::ENDED);
            if !self.sleep.is_shutdown() && Instant::now() < self.sleep.deadline() {
                fault::note(|| "a sleep was over before its time".to_owned());
            }
        }
        pending
    }

    /// Moves it, and polls it. Returns whether it is pending.
    pub fn reset(&mut self, delay: Duration) -> bool {
        self.life.may_run(floor(delay));
        if let Some(deadline) = Instant::now().checked_add(delay) {
            Pin::new(&mut self.sleep).reset(deadline);
        }
        self.poll()
    }
}

impl Drop for Nap {
    fn drop(&mut self) {
        self.life.drops.fetch_add(1, Relaxed);
    }
}
