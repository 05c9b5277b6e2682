//! A call of tonic that takes too long ends with the status `DeadlineExceeded`, on the server's limit or the client's.

#[path = "../common/mod.rs"]
mod common;

use std::future;
use std::pin::Pin;

use common::*;
use corewheel::tower::{BoxError, TimeoutLayer};
use corewheel::{Elapsed, Timer};
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::mpsc;
use tonic::codegen::tokio_stream::Stream;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Request, Response, Status};
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tower::ServiceBuilder;

/// Reports each call, and answers only those without a name.
struct Stuck(mpsc::UnboundedSender<()>);

#[tonic::async_trait]
impl Health for Stuck {
    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn check(&self, request: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        self.0.send(()).unwrap();
        if !request.into_inner().service.is_empty() {
            future::pending::<()>().await;
        }
        Ok(Response::new(HealthCheckResponse { status: 1 }))
    }

    async fn watch(&self, _: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        Err(Status::unimplemented("watch"))
    }
}

fn to_status(error: BoxError) -> BoxError {
    if error.is::<Elapsed>() { Status::deadline_exceeded("too late").into() } else { error }
}

fn ask(service: &str) -> HealthCheckRequest {
    HealthCheckRequest { service: service.to_owned() }
}

/// Starts the server that `$serve` makes of a service, and returns a channel to it.
macro_rules! connect {
    ($server:expr, $service:expr) => {{
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = $server.add_service(HealthServer::new($service));
        tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
        Endpoint::new(format!("http://{address}")).unwrap().connect().await.unwrap()
    }};
}

fn block_on(test: impl Future<Output = ()>) {
    Builder::new_current_thread().enable_io().build().unwrap().block_on(test);
}

/// Makes one call that is stuck for a second of virtual time, and returns its status.
async fn stuck_call(
    channel: Channel,
    timer: Timer,
    clock: &corewheel::ManualClock,
    mut started: mpsc::UnboundedReceiver<()>,
) -> Status {
    let mut client = HealthClient::new(channel);
    assert_eq!(client.check(ask("")).await.unwrap().into_inner().status, 1);
    started.recv().await.unwrap();
    let call = tokio::spawn(async move { client.check(ask("stuck")).await });
    started.recv().await.unwrap();
    clock.advance(SEC - MS);
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(!call.is_finished(), "the call ended too early");
    clock.advance(MS);
    let status = call.await.unwrap().unwrap_err();
    assert_eq!(timer.len(), 0, "no timer of a call is left");
    status
}

#[test]
fn a_call_over_the_servers_limit_ends_with_deadline_exceeded() {
    block_on(async {
        let (timer, clock) = in_virtual_time();
        let (sender, started) = mpsc::unbounded_channel();
        let limit = ServiceBuilder::new().map_err(to_status).layer(TimeoutLayer::new(timer.clone(), SEC));
        let channel = connect!(Server::builder().layer(limit), Stuck(sender));
        let status = stuck_call(channel, timer, &clock, started).await;
        assert_eq!((status.code(), status.message()), (Code::DeadlineExceeded, "too late"));
    });
}

/// Why the page puts `map_err` around the layer. If this fails, tonic has learnt to answer any error, and the page can be
/// simpler.
#[test]
fn without_a_status_the_client_sees_an_internal_error() {
    block_on(async {
        let (timer, clock) = in_virtual_time();
        let (sender, started) = mpsc::unbounded_channel();
        let limit = TimeoutLayer::new(timer.clone(), SEC);
        let channel = connect!(Server::builder().layer(limit), Stuck(sender));
        let status = stuck_call(channel, timer, &clock, started).await;
        assert_eq!(status.code(), Code::Internal, "{status}");
    });
}

#[test]
fn a_call_over_the_clients_limit_ends_with_deadline_exceeded() {
    block_on(async {
        let (timer, clock) = in_virtual_time();
        let (sender, mut started) = mpsc::unbounded_channel();
        let channel = connect!(Server::builder(), Stuck(sender));
        let limit = ServiceBuilder::new().map_err(to_status).layer(TimeoutLayer::new(timer.clone(), SEC));
        let mut client = HealthClient::new(limit.service(channel));
        assert_eq!(client.check(ask("")).await.unwrap().into_inner().status, 1);
        started.recv().await.unwrap();
        let call = tokio::spawn(async move { client.check(ask("stuck")).await });
        started.recv().await.unwrap();
        clock.advance(SEC);
        assert_eq!(call.await.unwrap().unwrap_err().code(), Code::DeadlineExceeded);
        assert_balanced(&timer);
    });
}
