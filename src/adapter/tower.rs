//! Timeouts for tower's services: axum's, tonic's, or any other.

use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use crate::Timer;

/// The error of a service that is subject to a timeout: its own, or [`Elapsed`](crate::Elapsed).
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Gives every call of a service so much time.
///
/// When the timer is shut down, each call that is not ready ends with an [`Elapsed`](crate::Elapsed) whose
/// [`is_shutdown`](crate::Elapsed::is_shutdown) is true. So does a call that is made after that, unless it is ready when
/// it is polled for the second time.
///
/// ```
/// use corewheel::Timer;
/// use corewheel::tower::TimeoutLayer;
/// use std::time::Duration;
/// use tower::{ServiceBuilder, ServiceExt, service_fn};
///
/// let timer = Timer::new()?;
/// let never = service_fn(|()| std::future::pending::<Result<(), std::io::Error>>());
/// let service = ServiceBuilder::new().layer(TimeoutLayer::new(timer, Duration::from_millis(10))).service(never);
/// let error = futures::executor::block_on(service.oneshot(())).unwrap_err();
/// assert!(error.is::<corewheel::Elapsed>());
/// # Ok::<(), corewheel::BuildError>(())
/// ```
#[derive(Clone, Debug)]
pub struct TimeoutLayer {
    timer: Timer,
    after: Duration,
}

impl TimeoutLayer {
    /// A call ends with an error `after` this time.
    pub fn new(timer: Timer, after: Duration) -> Self {
        Self { timer, after }
    }
}

impl<S> Layer<S> for TimeoutLayer {
    type Service = Timeout<S>;

    fn layer(&self, service: S) -> Timeout<S> {
        Timeout::new(service, self.timer.clone(), self.after)
    }
}

/// A service whose calls end with an error after some time.
#[derive(Clone, Debug)]
pub struct Timeout<S> {
    service: S,
    timer: Timer,
    after: Duration,
}

impl<S> Timeout<S> {
    /// `service`, of which a call ends with an error `after` this time.
    pub fn new(service: S, timer: Timer, after: Duration) -> Self {
        Self { service, timer, after }
    }

    /// The service itself.
    pub fn get_ref(&self) -> &S {
        &self.service
    }

    /// The service itself.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.service
    }

    /// The service, without the timeout.
    pub fn into_inner(self) -> S {
        self.service
    }
}

impl<S, Request> Service<Request> for Timeout<S>
where
    S: Service<Request>,
    S::Error: Into<BoxError>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.service.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request) -> ResponseFuture<S::Future> {
        ResponseFuture { response: self.timer.timeout(self.after, self.service.call(request)) }
    }
}

pin_project! {
    /// The response of a [`Timeout`].
    #[derive(Debug)]
    pub struct ResponseFuture<F> {
        #[pin]
        response: crate::Timeout<F>,
    }
}

impl<F, Response, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Response, E>>,
    E: Into<BoxError>,
{
    type Output = Result<Response, BoxError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match ready!(self.project().response.poll(context)) {
            Ok(response) => response.map_err(Into::into),
            Err(elapsed) => Err(elapsed.into()),
        })
    }
}
