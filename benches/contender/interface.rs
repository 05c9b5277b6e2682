//! The interface of a timer that the benchmarks can measure.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A benchmark's description of a contender, which hides its type.
pub trait FromContender {
    fn from_contender<C: Contender>() -> Self;
}

/// A timer service that wakes targets at their deadlines. Dropping it ends its threads.
///
/// For a service that calls closures, the closure captures the target. For one that has futures, the target is the
/// waker of the task. In both cases a timer owns one `Arc`.
pub trait Contender: Send + Sync + Sized + 'static {
    /// Name in the results and on the command line.
    const NAME: &'static str;

    /// Maximum time that a timer may be early by design.
    const EARLY: Duration = Duration::ZERO;

    /// Handle of one timer. A benchmark keeps it while it needs the timer; dropping it may or may not end the timer.
    type Handle: Send;

    /// Starts the service with its default settings.
    fn start() -> Self;

    /// Schedules a timer that wakes `target` once, not before `delay` has passed.
    fn schedule(&self, delay: Duration, target: Arc<impl Wake + Send + Sync + 'static>) -> Self::Handle;

    /// Cancels a timer, so that it does not wake its target. Returns whether it was pending; `None` if the service does
    /// not report that.
    fn cancel(&self, handle: Self::Handle) -> Option<bool>;

    /// Resets a timer to `delay` from now, in the fastest way of the service. Returns the same as `cancel`.
    fn rearm(
        &self,
        handle: &mut Self::Handle,
        delay: Duration,
        target: &Arc<impl Wake + Send + Sync + 'static>,
    ) -> Option<bool>;

    /// Runs `work` on a thread that may use the service.
    fn spawn(&self, work: impl FnOnce() + Send + 'static) {
        thread::spawn(work);
    }

    /// Calls `until`, which blocks such a thread. The thread's timers must still fire meanwhile.
    fn wait<R>(&self, until: impl FnOnce() -> R) -> R {
        until()
    }
}

/// The target of a timeout; does nothing. No two share a cache line, nor a pair that a processor fetches together.
#[repr(align(128))]
pub struct Connection;

impl Wake for Connection {
    fn wake(self: Arc<Self>) {}
}

/// Returns the future in a box, polled with the target as its waker.
pub fn boxed<F: Future>(future: F, target: Arc<impl Wake + Send + Sync + 'static>) -> Pin<Box<F>> {
    let mut future = Box::pin(future);
    poll(future.as_mut(), target);
    future
}

/// Polls a future with the target as its waker. Wakes the target at once if the future is ready.
pub fn poll(future: Pin<&mut impl Future>, target: Arc<impl Wake + Send + Sync + 'static>) {
    let waker = Waker::from(target);
    if future.poll(&mut Context::from_waker(&waker)).is_ready() {
        waker.wake();
    }
}

/// Joins the thread of a contender, which has been asked to end.
pub(super) fn join(thread: &mut Option<JoinHandle<()>>) {
    let ended = thread.take().map(JoinHandle::join);
    assert!(ended.is_some_and(|result| result.is_ok()), "the timer's thread did not panic");
}
