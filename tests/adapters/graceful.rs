//! The end of the servers of the page, and of one without axum: clients that are idle, slow or new, and requests that are stuck.

#[path = "../common/mod.rs"]
mod common;

use std::convert::Infallible;
use std::future;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{self, SocketAddr, TcpStream as Client};
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use axum::http::Uri;
use axum::{BoxError, Router};
use common::*;
use corewheel::{Sleep, Timer};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::{Notify, oneshot};
use tonic::codegen::tokio_stream::Stream;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Endpoint, Server};
use tonic::{Status, async_trait};
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

const LIMIT: Duration = Duration::from_secs(1);
const HEADER: Duration = Duration::from_secs(60);
const WRITE: Duration = Duration::from_secs(60);

include!("limited_writes.rs");

/// Requests whose handlers wait.
static BEGUN: AtomicUsize = AtomicUsize::new(0);
static SLOW: Notify = Notify::const_new();

async fn handle(path: &str) -> &'static str {
    if path != "/" {
        BEGUN.fetch_add(1, Ordering::SeqCst);
        if path == "/stuck" {
            future::pending::<()>().await;
        }
        SLOW.notified().await;
    }
    "hello"
}

async fn accept(listener: &TcpListener, _timer: &Timer) -> TcpStream {
    listener.accept().await.unwrap().0
}

mod hyper_loop {
    use super::*;

    async fn hello(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        Ok(Response::new(Full::new(handle(request.uri().path()).await.into())))
    }

    /// Serves until `stop`. Then answers the requests that have begun, for at most `LIMIT`.
    pub async fn serve(listener: TcpListener, timer: Timer, mut stop: oneshot::Receiver<()>) {
        let graceful = GracefulShutdown::new();
        loop {
            let stream = tokio::select! {
                stream = accept(&listener, &timer) => stream,
                _ = &mut stop => break,
            };
            let mut builder = http1::Builder::new();
            builder.timer(timer.clone()).header_read_timeout(Duration::from_secs(10));
            let connection = builder.serve_connection(TokioIo::new(stream), service_fn(hello));
            tokio::spawn(graceful.watch(connection));
        }
        drop(listener); // The system refuses further clients.
        if timer.timeout(LIMIT, graceful.shutdown()).await.is_err() {
            eprintln!("some requests have no answer after {LIMIT:?}");
        }
    }
}

mod axum_loop {
    use super::*;

    /// Serves until `stop`. Then answers the requests that have begun, for at most `LIMIT`.
    pub async fn serve(listener: TcpListener, app: Router, timer: Timer, mut stop: oneshot::Receiver<()>) {
        let graceful = GracefulShutdown::new();
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder.http1().timer(timer.clone()).header_read_timeout(HEADER);
        builder
            .http2()
            .timer(timer.clone())
            .keep_alive_interval(Duration::from_secs(20))
            .keep_alive_timeout(Duration::from_secs(10));
        loop {
            let stream = tokio::select! {
                stream = accept(&listener, &timer) => stream,
                _ = &mut stop => break,
            };
            let stream = LimitedWrites { stream, timer: timer.clone(), limit: WRITE, pending: None };
            // Behind TLS: `http2_only` if ALPN has chosen HTTP/2.
            let (builder, watcher) = (builder.clone().http1_only(), graceful.watcher());
            let service = TowerToHyperService::new(app.clone());
            tokio::spawn(async move {
                // A timeout is an error of the connection, and so is a client that goes away.
                let _ = watcher.watch(builder.serve_connection(TokioIo::new(stream), service)).await;
            });
        }
        drop(listener); // The system refuses further clients.
        if timer.timeout(LIMIT, graceful.shutdown()).await.is_err() {
            eprintln!("some requests have no answer after {LIMIT:?}");
        }
    }
}

mod axum_serve {
    use super::*;

    /// Serves until `stop`. Then answers the requests that have begun, for at most `LIMIT`.
    pub async fn serve(listener: TcpListener, app: Router, timer: Timer, stop: impl Future) -> Result<(), BoxError> {
        let (ends, end) = oneshot::channel::<()>();
        let server = axum::serve(listener, app).with_graceful_shutdown(async { _ = end.await });
        let server = tokio::spawn(server.into_future());
        stop.await;
        drop(ends); // It accepts no more.
        timer.timeout(LIMIT, server).await???;
        Ok(())
    }
}

#[test]
fn the_page_has_this_function() {
    let trimmed =
        |text: &str| text.lines().map(|line| line.trim().trim_start_matches("pub ")).collect::<Vec<_>>().join("\n");
    let page = trimmed(include_str!("../../docs/embedding/servers.md"));
    let source = include_str!("graceful.rs");
    let from_the_doc = source.split("mod axum_loop {\n    use super::*;\n").nth(1).unwrap();
    let function = trimmed(from_the_doc.split("\n    }\n").next().unwrap());
    assert!(page.contains(&function), "the page's function differs from\n{function}");
}

/// Connects to a server, and sends a request.
fn ask(address: SocketAddr, path: &str) -> Client {
    let mut client = Client::connect(address).unwrap();
    client.set_read_timeout(Some(TIMEOUT)).unwrap();
    client.write_all(format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n").as_bytes()).unwrap();
    client
}

/// Returns what comes until the server closes the connection.
fn rest(client: &mut Client) -> String {
    let mut rest = Vec::new();
    match client.read_to_end(&mut rest) {
        Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("{error}"),
        _ => String::from_utf8(rest).unwrap(),
    }
}

/// Ends a server while one client is idle, one waits for an answer that comes, and one for an answer that never does.
fn end<F: Future<Output = ()> + Send + 'static>(serve: impl FnOnce(TcpListener, Timer, oneshot::Receiver<()>) -> F) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _one_at_a_time = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let timer = Timer::new().unwrap();
    let runtime = Builder::new_multi_thread().enable_io().build().unwrap();
    let listener = net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    let (stop, stopped) = oneshot::channel();
    let listener = runtime.block_on(async { TcpListener::from_std(listener).unwrap() });
    let serves = serve(listener, timer.clone(), stopped);
    let server = runtime.spawn(async {
        serves.await;
        Instant::now()
    });

    let mut idle = ask(address, "/");
    let mut answer = [0; 1000];
    assert!(idle.read(&mut answer).unwrap() > 0);
    let before = BEGUN.load(Ordering::SeqCst);
    let (mut slow, mut stuck) = (ask(address, "/slow"), ask(address, "/stuck"));
    eventually("the requests begin", || BEGUN.load(Ordering::SeqCst) == before + 2);

    let start = Instant::now();
    stop.send(()).unwrap();
    rest(&mut idle);
    SLOW.notify_one();
    let answer = rest(&mut slow);
    assert!(answer.ends_with("hello"), "{answer}");
    eventually("new clients are refused", || Client::connect(address).is_err());
    let ended = runtime.block_on(timer.timeout(TIMEOUT, server)).expect("the limit has ended it").unwrap();
    assert!(ended - start >= LIMIT);
    runtime.shutdown_timeout(TIMEOUT);
    assert_eq!(rest(&mut stuck), "");
    timer.shutdown_timeout(TIMEOUT);
    assert_balanced(&timer);
}

fn router() -> Router {
    Router::new().fallback(async |uri: Uri| handle(uri.path()).await)
}

#[test]
fn hypers_accept_loop_ends() {
    end(hyper_loop::serve);
}

#[test]
fn axums_accept_loop_ends() {
    end(|listener, timer, stop| axum_loop::serve(listener, router(), timer, stop));
}

#[test]
fn axums_server_ends() {
    end(async |listener, timer, stop| {
        assert!(axum_serve::serve(listener, router(), timer, stop).await.unwrap_err().is::<corewheel::Elapsed>());
    });
}

/// Answers no call.
struct Stuck;

#[async_trait]
impl Health for Stuck {
    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn check(
        &self,
        _: tonic::Request<HealthCheckRequest>,
    ) -> Result<tonic::Response<HealthCheckResponse>, Status> {
        SLOW_CALL.notify_one();
        future::pending().await
    }

    async fn watch(&self, _: tonic::Request<HealthCheckRequest>) -> Result<tonic::Response<Self::WatchStream>, Status> {
        Err(Status::unimplemented("watch"))
    }
}

static SLOW_CALL: Notify = Notify::const_new();

#[test]
fn tonics_server_ends() {
    let timer = Timer::new().unwrap();
    let [servers, clients] = [(); 2].map(|()| Builder::new_multi_thread().enable_all().build().unwrap());
    let (ends, end) = oneshot::channel::<()>();
    let (address, server) = servers.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Server::builder().add_service(HealthServer::new(Stuck));
        let server = server.serve_with_incoming_shutdown(TcpIncoming::from(listener), async { _ = end.await });
        (address, tokio::spawn(server))
    });
    let call = clients.spawn(async move {
        let channel = Endpoint::new(format!("http://{address}")).unwrap().connect().await.unwrap();
        HealthClient::new(channel).check(HealthCheckRequest::default()).await
    });
    servers.block_on(timer.timeout(TIMEOUT, SLOW_CALL.notified())).unwrap();

    let start = Instant::now();
    drop(ends);
    servers.block_on(timer.timeout(LIMIT, server)).unwrap_err();
    assert!(start.elapsed() >= LIMIT);
    servers.shutdown_timeout(TIMEOUT);
    clients.block_on(timer.timeout(TIMEOUT, call)).unwrap().unwrap().unwrap_err();
    timer.shutdown_timeout(TIMEOUT);
    assert_balanced(&timer);
}
