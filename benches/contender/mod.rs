//! What a timer must be able to do to be measured, and the timers that are.
//!
//! To add one, give it a file here that implements [`Contender`], and its line in [`all`].

pub mod async_io;
mod b_tree;
pub mod check;
pub mod corewheel;
mod hash_wheel;
mod heap;
pub mod pingora;
mod sharded_heap;
pub mod sleep;
pub mod tokio;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Those who compete, as a benchmark wants them.
pub fn all<E: Entrant>() -> Vec<E> {
    vec![
        E::of::<corewheel::CoreWheel>(),
        E::of::<sleep::CoreSleep>(),
        E::of::<heap::HeapTimer>(),
        E::of::<sharded_heap::ShardedHeap>(),
        E::of::<b_tree::BTreeTimer>(),
        E::of::<tokio::TokioSleep>(),
        #[cfg(tokio_unstable)]
        E::of::<tokio::TokioSleep<true>>(),
        E::of::<async_io::AsyncIo>(),
        E::of::<pingora::FastTimeout>(),
        E::of::<hash_wheel::HashWheel>(),
    ]
}

/// What a benchmark makes of a contender.
pub trait Entrant {
    fn of<C: Contender>() -> Self;
}

/// A timer that wakes targets when they are due. Dropping it ends its threads.
///
/// A target stands for the closure of a timer that calls closures, which captures it, and for the task of a future:
/// either way a timer holds on to one `Arc`.
pub trait Contender: Send + Sync + Sized + 'static {
    /// What it is called in the results, and on the command line.
    const NAME: &'static str;

    /// How early it may be, by its design.
    const EARLY: Duration = Duration::ZERO;

    /// One timer. It is kept while the timer is wanted: dropping it may end the timer, or let it run on.
    type Handle: Send;

    /// Starts it, with the settings that its users get by default.
    fn start() -> Self;

    /// Wakes `target` once, not before `delay` has passed.
    fn schedule(&self, delay: Duration, target: Arc<impl Wake + Send + Sync + 'static>) -> Self::Handle;

    /// Ends a timer, whose target will not be woken then. Whether it had not ended before, if that can be told.
    fn cancel(&self, handle: Self::Handle) -> Option<bool>;

    /// Moves a timer to `delay` from now, in the best way it has. Whether it had not ended before, if that can be told.
    fn rearm(
        &self,
        handle: &mut Self::Handle,
        delay: Duration,
        target: &Arc<impl Wake + Send + Sync + 'static>,
    ) -> Option<bool>;

    /// Starts a thread from which it may be used.
    fn spawn(&self, work: impl FnOnce() + Send + 'static) {
        thread::spawn(work);
    }

    /// Has such a thread wait for something, while its timers go on.
    fn wait<R>(&self, until: impl FnOnce() -> R) -> R {
        until()
    }
}

/// Polls a future by a waker that is the target, which is woken at once if it is ready.
fn poll(future: Pin<&mut impl Future>, target: Arc<impl Wake + Send + Sync + 'static>) {
    let waker = Waker::from(target);
    if future.poll(&mut Context::from_waker(&waker)).is_ready() {
        waker.wake();
    }
}

/// Waits for the thread of a contender that has been told to end.
fn join(thread: &mut Option<JoinHandle<()>>) {
    let ended = thread.take().map(JoinHandle::join);
    assert!(ended.is_some_and(|result| result.is_ok()), "the timer's thread did not panic");
}
