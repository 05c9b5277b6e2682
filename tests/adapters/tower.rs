//! The timeout layer for tower services, alone and in an axum router.

#[path = "../common/mod.rs"]
mod common;

use std::future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use axum::error_handling::HandleErrorLayer;
use axum::http::{Request, StatusCode};
use axum::routing::get;
use axum::{BoxError, Router, body::Body};
use common::*;
use corewheel::tower::{Timeout, TimeoutLayer};
use corewheel::{Elapsed, Timer};
use futures::executor::block_on;
use tower::{Layer, Service, ServiceBuilder, ServiceExt, service_fn};

#[test]
fn a_call_that_takes_too_long_ends_with_elapsed() {
    let (timer, clock) = in_virtual_time();
    let never = service_fn(|()| future::pending::<Result<(), io::Error>>());
    let mut call = TimeoutLayer::new(timer.clone(), SEC).layer(never).call(());
    let mut context = Context::from_waker(Waker::noop());
    let mut poll = || Pin::new(&mut call).poll(&mut context);
    assert!(poll().is_pending());
    clock.advance(SEC - MS);
    assert!(poll().is_pending());
    clock.advance(MS);
    let Poll::Ready(Err(error)) = poll() else { panic!("the call did not time out") };
    assert!(!error.downcast::<Elapsed>().unwrap().is_shutdown());
    assert_balanced(&timer);
}

#[test]
fn a_call_that_ends_in_time_is_unchanged() {
    let timer = Timer::new().unwrap();
    let half =
        service_fn(|n: u32| future::ready(if n.is_multiple_of(2) { Ok(n / 2) } else { Err(io::Error::other("odd")) }));
    let service = Timeout::new(half, timer.clone(), HOUR);
    assert_eq!(block_on(service.clone().oneshot(8)).unwrap(), 4);
    let error = block_on(service.oneshot(7)).unwrap_err();
    assert_eq!(error.downcast::<io::Error>().unwrap().to_string(), "odd");
    assert_eq!(timer.len(), 0, "the timer of the call has ended");
}

#[test]
fn each_request_has_the_limit_that_the_layer_takes_from_it() {
    let (timer, clock) = in_virtual_time();
    let never = service_fn(|_: u64| future::pending::<Result<(), io::Error>>());
    let layer = TimeoutLayer::with(timer.clone(), |&seconds: &u64| Duration::from_secs(seconds));
    let mut service = layer.clone().layer(never);
    let polled = |seconds| {
        let mut call = Box::pin(service.call(seconds));
        move || call.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    };
    let [mut five, mut two, mut zero] = [5, 2, 0].map(polled);
    assert!(five().is_pending() && two().is_pending());
    let elapsed =
        |polled: Poll<Result<(), BoxError>>| matches!(polled, Poll::Ready(Err(error)) if error.is::<Elapsed>());
    assert!(elapsed(zero()));
    clock.advance(2 * SEC - MS);
    assert!(two().is_pending());
    clock.advance(MS);
    assert!(elapsed(two()) && five().is_pending());
    clock.advance(3 * SEC);
    assert!(elapsed(five()));
    assert_balanced(&timer);
}

#[test]
fn an_axum_router_times_out_slow_handlers() {
    let timer = Timer::new().unwrap();
    let sleeper = timer.clone();
    let on_error = |error: BoxError| async move {
        if error.is::<Elapsed>() { StatusCode::GATEWAY_TIMEOUT } else { StatusCode::INTERNAL_SERVER_ERROR }
    };
    let app = Router::new()
        .route("/fast", get(|| async { "here" }))
        .route("/slow", get(move || async move { sleeper.sleep(HOUR).await }))
        .layer(
            ServiceBuilder::new()
                .layer(HandleErrorLayer::new(on_error))
                .layer(TimeoutLayer::new(timer.clone(), Duration::from_millis(50))),
        );
    let status = |path| {
        let request = Request::get(path).body(Body::empty()).unwrap();
        block_on(app.clone().oneshot(request)).unwrap().status()
    };
    assert_eq!((status("/fast"), status("/slow")), (StatusCode::OK, StatusCode::GATEWAY_TIMEOUT));
    assert_eq!(timer.len(), 0, "the handler's own sleep was dropped with it");
}
