//! The contenders: how a request gets its timeout.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// Limits the time of requests. Each task has one of its own.
pub trait Contender: Default + Send + 'static {
    const NAME: &'static str;

    /// Returns the output of `future`, or `None` if that takes longer than the limit.
    fn within<F: Future + Send>(
        &mut self,
        limit: Duration,
        future: F,
    ) -> impl Future<Output = Option<F::Output>> + Send;
}

#[derive(Default)]
pub struct NoTimeout;

impl Contender for NoTimeout {
    const NAME: &'static str = "none";

    async fn within<F: Future + Send>(&mut self, _: Duration, future: F) -> Option<F::Output> {
        Some(future.await)
    }
}

#[derive(Default)]
pub struct Tokio;

impl Contender for Tokio {
    const NAME: &'static str = "tokio";

    async fn within<F: Future + Send>(&mut self, limit: Duration, future: F) -> Option<F::Output> {
        tokio::time::timeout(limit, future).await.ok()
    }
}

/// The function that takes the place of tokio's when a program swaps its `use` line.
#[derive(Default)]
pub struct Corewheel;

impl Contender for Corewheel {
    const NAME: &'static str = "corewheel";

    async fn within<F: Future + Send>(&mut self, limit: Duration, future: F) -> Option<F::Output> {
        corewheel::time::timeout(limit, future).await.ok()
    }
}

/// One sleep for all requests of a task, which each of them resets.
#[derive(Default)]
pub struct TokioReset(Option<Pin<Box<tokio::time::Sleep>>>);

impl Contender for TokioReset {
    const NAME: &'static str = "tokio, reset";

    async fn within<F: Future + Send>(&mut self, limit: Duration, future: F) -> Option<F::Output> {
        let sleep = self.0.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        sleep.as_mut().reset(tokio::time::Instant::now() + limit);
        first(future, sleep).await
    }
}

/// As [`TokioReset`]. Has the box only because that needs one.
#[derive(Default)]
pub struct CorewheelReset(Option<Pin<Box<corewheel::Sleep>>>);

impl Contender for CorewheelReset {
    const NAME: &'static str = "corewheel, reset";

    async fn within<F: Future + Send>(&mut self, limit: Duration, future: F) -> Option<F::Output> {
        let sleep = self.0.get_or_insert_with(|| Box::pin(corewheel::time::sleep(limit)));
        sleep.as_mut().reset_after(limit);
        first(future, sleep).await
    }
}

/// Returns the output of `future`, or `None` if `sleep` completes first.
async fn first<F: Future>(future: F, sleep: impl Future<Output = ()>) -> Option<F::Output> {
    tokio::select! {
        biased;
        output = future => Some(output),
        () = sleep => None,
    }
}
