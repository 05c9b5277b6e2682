//! Timeouts for tower services, such as those of axum and tonic.
//!
//! [servers.md] has a complete program.
//!
//! [servers.md]: crate::guide::servers

use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use crate::Timer;

/// The error of a service with a timeout: the error of the service itself, or [`Elapsed`](crate::Elapsed).
///
/// ```
/// use corewheel::Elapsed;
/// use corewheel::tower::BoxError;
///
/// fn status(error: &BoxError) -> u16 {
///     if error.is::<Elapsed>() { 504 } else { 500 }
/// }
/// assert_eq!(status(&"broken".into()), 500);
/// ```
pub type BoxError = Box<dyn Error + Send + Sync>;

/// A layer that gives each call of a service a time limit: the same for all by [`new`](Self::new), or a function of the
/// request by [`with`](Self::with).
///
/// When the `Timer` is shut down, each call that is not ready ends with an [`Elapsed`](crate::Elapsed) whose
/// [`is_shutdown`](crate::Elapsed::is_shutdown) is true. A later call has no time limit.
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
pub struct TimeoutLayer<L = Duration> {
    timer: Timer,
    limit: L,
}

impl TimeoutLayer {
    /// Creates a layer whose services end each call with an error `after` this time.
    ///
    /// ```
    /// use corewheel::Timer;
    /// use corewheel::tower::TimeoutLayer;
    /// use std::time::Duration;
    ///
    /// let layer = TimeoutLayer::new(Timer::new()?, Duration::from_secs(30));
    /// # drop(layer);
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn new(timer: Timer, after: Duration) -> Self {
        Self { timer, limit: after }
    }

    /// Creates a layer whose services ask `limit` how long each request may take, before they call the inner service.
    ///
    /// A limit of zero ends a call that is not ready at its first poll. One too long to represent is none, and
    /// [`Duration::MAX`] says so. A panic of `limit` is one of the call. [servers.md] takes the limit from a header.
    ///
    /// ```
    /// use corewheel::{Timer, tower::TimeoutLayer};
    /// use std::time::Duration;
    /// use tower::{ServiceBuilder, ServiceExt, service_fn};
    ///
    /// let limit = |request: &&str| Duration::from_millis(if request.starts_with("GET") { 10 } else { 60_000 });
    /// let never = service_fn(|_: &'static str| std::future::pending::<Result<(), std::io::Error>>());
    /// let service = ServiceBuilder::new().layer(TimeoutLayer::with(Timer::new()?, limit)).service(never);
    /// let error = futures::executor::block_on(service.oneshot("GET /")).unwrap_err();
    /// assert!(error.is::<corewheel::Elapsed>());
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    ///
    /// [servers.md]: crate::guide::servers#tonic
    pub fn with<Request, F: Fn(&Request) -> Duration + Clone>(timer: Timer, limit: F) -> TimeoutLayer<F> {
        TimeoutLayer { timer, limit }
    }
}

impl<S, L: Clone> Layer<S> for TimeoutLayer<L> {
    type Service = Timeout<S, L>;

    fn layer(&self, service: S) -> Timeout<S, L> {
        Timeout { service, timer: self.timer.clone(), limit: self.limit.clone() }
    }
}

/// A service whose calls end with an error after some time: a [`Duration`], or what a function `L` of the request returns.
/// [`TimeoutLayer`] creates it.
///
/// ```
/// use corewheel::Timer;
/// use corewheel::tower::Timeout;
/// use std::time::Duration;
/// use tower::{ServiceExt, service_fn};
///
/// let double = service_fn(|n: u32| async move { Ok::<_, std::io::Error>(2 * n) });
/// let service = Timeout::new(double, Timer::new()?, Duration::from_secs(5));
/// assert_eq!(futures::executor::block_on(service.oneshot(21)).unwrap(), 42);
/// # Ok::<(), corewheel::BuildError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Timeout<S, L = Duration> {
    service: S,
    timer: Timer,
    limit: L,
}

impl<S> Timeout<S> {
    /// Creates a service that ends each call of `service` with an error `after` this time.
    ///
    /// ```
    /// use corewheel::{Timer, tower::Timeout};
    /// use std::time::Duration;
    /// let service = Timeout::new("any service", Timer::new()?, Duration::from_secs(5));
    /// # drop(service);
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn new(service: S, timer: Timer, after: Duration) -> Self {
        Self { service, timer, limit: after }
    }
}

impl<S, L> Timeout<S, L> {
    /// Returns a reference to the service.
    ///
    /// ```
    /// use corewheel::{Timer, tower::Timeout};
    /// use std::time::Duration;
    /// let service = Timeout::new("any service", Timer::new()?, Duration::from_secs(5));
    /// assert_eq!(*service.get_ref(), "any service");
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn get_ref(&self) -> &S {
        &self.service
    }

    /// Returns a mutable reference to the service.
    ///
    /// ```
    /// use corewheel::{Timer, tower::Timeout};
    /// use std::time::Duration;
    /// let mut service = Timeout::new("any service", Timer::new()?, Duration::from_secs(5));
    /// *service.get_mut() = "another service";
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.service
    }

    /// Returns the service, without the timeout.
    ///
    /// ```
    /// use corewheel::{Timer, tower::Timeout};
    /// use std::time::Duration;
    /// let service = Timeout::new("any service", Timer::new()?, Duration::from_secs(5));
    /// assert_eq!(service.into_inner(), "any service");
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
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
        ResponseFuture { response: self.timer.timeout(self.limit, self.service.call(request)) }
    }
}

impl<S, F, Request> Service<Request> for Timeout<S, F>
where
    S: Service<Request>,
    S::Error: Into<BoxError>,
    F: Fn(&Request) -> Duration,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.service.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request) -> ResponseFuture<S::Future> {
        let limit = (self.limit)(&request);
        ResponseFuture { response: self.timer.timeout(limit, self.service.call(request)) }
    }
}

pin_project! {
    /// The future of a call of a [`Timeout`]: the response, or an error.
    ///
    /// ```
    /// use corewheel::tower::{BoxError, ResponseFuture, Timeout};
    /// use tower::Service;
    ///
    /// fn ask<S>(service: &mut Timeout<S>) -> ResponseFuture<S::Future>
    /// where
    ///     S: Service<&'static str>,
    ///     S::Error: Into<BoxError>,
    /// {
    ///     service.call("a question")
    /// }
    /// let echo = tower::service_fn(async |question: &'static str| Ok::<_, std::io::Error>(question));
    /// let mut service = Timeout::new(echo, corewheel::Timer::new()?, std::time::Duration::from_secs(5));
    /// assert_eq!(futures::executor::block_on(ask(&mut service)).unwrap(), "a question");
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
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
        self.project().response.poll(context).map(|response| response?.map_err(Into::into))
    }
}
