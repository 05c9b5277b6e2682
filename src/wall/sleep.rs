//! The future of a clock that jumps.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::handle::WallHandle;
use super::looks::Shared;
use super::table::WallTime;
use crate::future::Sleep;
use crate::shard::budget::Waited;
use crate::sync::lock;

/// A future that completes at a time by a clock that jumps.
///
/// [`WallTimer::sleep_until`](super::WallTimer::sleep_until) and [`WallTimer::sleep`](super::WallTimer::sleep) return it.
/// It completes before its time only if a shutdown ends the service first: see [`is_shutdown`](Self::is_shutdown). Each
/// poll looks at the clock: if it was set back after the task was woken, the future is pending again.
///
/// Pending, it is a deadline in the table of its wall timer, and dropping it removes that. A poll and the drop take the
/// table's lock, in logarithmic time. The waker of the last poll is called where callbacks run, or by the thread that shuts
/// the service down. No loop over such futures keeps its executor from other tasks, as for
/// [`Sleep`](crate::Sleep#loops). A future is never refused: while [`max_pending`](crate::Builder::max_pending) leaves no
/// place for the wall timer, the future looks at the clock by itself, each [`look_every`](super::WallTimer::look_every).
///
/// A future that is made after the shutdown is pending until a poll finds that its time has come.
///
/// ```
/// use corewheel::{Timer, wall::WallTimer};
/// use std::time::Duration;
/// let timer = Timer::new()?;
/// let wall = WallTimer::new(&timer);
/// # futures::executor::block_on(async {
/// wall.sleep(Duration::from_millis(5)).await;
/// # });
/// # Ok::<(), corewheel::BuildError>(())
/// ```
#[derive(Debug)]
#[must_use = "a sleep does nothing unless it is polled"]
pub struct WallSleep {
    shared: Arc<Shared>,
    at: WallTime,
    /// The last closure that calls the waker.
    listed: Option<WallHandle>,
    waker: Arc<Mutex<Option<Waker>>>,
    /// It was made before a shutdown, which completes it.
    ends_with_service: bool,
    /// Whether it has completed, and by a shutdown.
    completed: Option<bool>,
    waited: Waited,
    /// Wakes the task where the closure does not.
    unlisted: Option<Sleep>,
}

impl WallSleep {
    pub(super) fn new(shared: &Arc<Shared>, at: WallTime) -> Self {
        Self {
            shared: shared.clone(),
            at,
            listed: None,
            waker: Arc::default(),
            ends_with_service: shared.open().is_some(),
            completed: None,
            waited: Waited::No,
            unlisted: None,
        }
    }

    /// Returns whether the service was shut down before the time came: the future was completed by that, or no thread wakes
    /// its task.
    ///
    /// ```
    /// use corewheel::{Timer, wall::WallTimer};
    /// use std::time::Duration;
    /// let timer = Timer::new()?;
    /// # futures::executor::block_on(async {
    /// let mut sleep = WallTimer::new(&timer).sleep(Duration::from_secs(3600));
    /// timer.shutdown();
    /// (&mut sleep).await;
    /// assert!(sleep.is_shutdown());
    /// # });
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn is_shutdown(&self) -> bool {
        self.completed.unwrap_or_else(|| !self.left().is_zero() && self.shared.open().is_none())
    }

    fn left(&self) -> Duration {
        self.at.left(self.shared.readings())
    }

    /// Waits for the time. Returns whether a shutdown has completed the future.
    fn wait(&mut self, waker: &Waker) -> bool {
        let Some(timer) = self.shared.open() else { return self.ends_with_service };
        if !self.is_listed() {
            let wake = WakeOnDrop(self.waker.clone());
            self.listed = self.shared.schedule(self.at, move || drop(wake)).ok();
        }
        self.set_waker(Some(waker.clone()));
        // It was refused, or it has run before the waker was set.
        if !self.is_listed() {
            let every = lock(&self.shared.state).look_every;
            let sleep = self.unlisted.insert(timer.sleep(self.left().min(every)));
            if Pin::new(sleep).poll(&mut Context::from_waker(waker)).is_ready() {
                waker.wake_by_ref();
            }
        }
        false
    }

    fn is_listed(&self) -> bool {
        self.listed.as_ref().is_some_and(WallHandle::is_pending)
    }

    fn set_waker(&self, waker: Option<Waker>) {
        let old = mem::replace(&mut *lock(&self.waker), waker);
        drop(old);
    }

    fn unlist(&mut self) {
        self.set_waker(None);
        self.listed.take().iter().for_each(|listed| _ = listed.cancel());
    }
}

/// Calls the waker of a future when its closure has run, or is dropped by a shutdown.
struct WakeOnDrop(Arc<Mutex<Option<Waker>>>);

impl Drop for WakeOnDrop {
    fn drop(&mut self) {
        let waker = lock(&self.0).take();
        waker.into_iter().for_each(Waker::wake);
    }
}

impl Future for WallSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let may_complete = self.waited.poll();
        let is_over = self.completed.is_some() || self.left().is_zero() || self.wait(context.waker());
        if !is_over {
            self.waited = Waited::Yes;
        } else if may_complete {
            self.completed = Some(self.is_shutdown());
            self.unlist();
            self.waited.complete();
            return Poll::Ready(());
        } else {
            self.waited = Waited::GaveWay;
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

impl Drop for WallSleep {
    fn drop(&mut self) {
        self.waited.forget();
        self.unlist();
    }
}
