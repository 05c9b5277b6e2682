//! Clients that are slow where no timeout of hyper is: within a body, in reading the answer, and within a TLS handshake;
//! and handlers that are.

#[path = "../common/mod.rs"]
mod common;

use std::io::{self, ErrorKind, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::error_handling::HandleErrorLayer;
use axum::http::{Request, StatusCode};
use axum::routing::{get, post};
use axum::{BoxError, Router};
use common::*;
use corewheel::tower::TimeoutLayer;
use corewheel::{Elapsed, Sleep, Timer};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime;
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tower::ServiceBuilder;

/// Of the handler, of a write and of the handshake.
const LIMIT: Duration = Duration::from_millis(100);
/// More than the buffers of a connection on loopback hold.
const LARGE: usize = 1 << 25;

include!("limited_writes.rs");

#[test]
fn the_page_has_this_stream() {
    let source = include_str!("limited_writes.rs");
    let stream = &source[source.find("/// A stream whose").unwrap()..];
    assert!(
        include_str!("../../docs/embedding/servers.md").contains(stream),
        "the page's stream differs from\n{stream}"
    );
}

fn on_a_runtime<T>(test: impl Future<Output = T>) -> T {
    runtime::Builder::new_current_thread().enable_io().build().unwrap().block_on(test)
}

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Returns a router with an echo, a handler that never answers, and a large answer. Each handler has the limit.
fn router(timer: &Timer) -> Router {
    let too_late = async |error: BoxError| {
        assert!(error.is::<Elapsed>());
        StatusCode::GATEWAY_TIMEOUT
    };
    let limits =
        ServiceBuilder::new().layer(HandleErrorLayer::new(too_late)).layer(TimeoutLayer::new(timer.clone(), LIMIT));
    Router::new()
        .route("/", post(async |body: Bytes| body))
        .route("/stuck", get(std::future::pending::<()>))
        .route("/large", get(async || vec![b'.'; LARGE]))
        .layer(limits)
}

#[test]
fn a_body_that_stops_and_a_handler_that_is_stuck_end_the_request_under_axum() {
    let timer = Timer::new().unwrap();
    on_a_runtime(async {
        let (listener, address) = listen().await;
        tokio::spawn(axum::serve(listener, router(&timer)).into_future());
        for (request, sent, status, body) in [
            ("GET /stuck", "\r\n", "504", ""),
            ("POST /", "content-length: 10\r\n\r\nabc", "504", ""),
            ("POST /", "content-length: 10\r\n\r\nabcdefghij", "200", "abcdefghij"),
        ] {
            let start = Instant::now();
            let mut stream = TcpStream::connect(address).await.unwrap();
            let head = format!("{request} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{sent}");
            stream.write_all(head.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")) && answer.ends_with(body), "{answer}");
            assert!(status == "200" || start.elapsed() >= LIMIT);
        }
    });
}

/// Serves the next connection by the router, as the page's accept loop does.
async fn serve(listener: &TcpListener, timer: &Timer) -> Result<(), BoxError> {
    let (stream, _) = listener.accept().await?;
    let stream = LimitedWrites { stream, timer: timer.clone(), limit: LIMIT, pending: None };
    let service = TowerToHyperService::new(router(timer));
    auto::Builder::new(TokioExecutor::new()).http1_only().serve_connection(TokioIo::new(stream), service).await
}

#[test]
fn a_client_that_reads_nothing_loses_its_connection() {
    let timer = Timer::new().unwrap();
    on_a_runtime(async {
        let (listener, address) = listen().await;
        let start = Instant::now();
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(b"GET /large HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        assert!(serve(&listener, &timer).await.is_err());
        assert!(start.elapsed() >= LIMIT);
        let mut answer = Vec::new();
        let _ = client.read_to_end(&mut answer).await; // some systems report a reset
        assert!(answer.starts_with(b"HTTP/1.1 200") && answer.len() < LARGE, "{} bytes", answer.len());
    });
    assert_eq!(timer.len(), 0, "the sleep of the write has ended");
}

#[test]
fn each_write_has_the_whole_limit() {
    let (timer, clock) = in_virtual_time();
    let (mut client, server) = tokio::io::duplex(3);
    let mut server = LimitedWrites { stream: server, timer: timer.clone(), limit: SEC, pending: None };
    let mut context = Context::from_waker(Waker::noop());
    let mut write = || Pin::new(&mut server).poll_write(&mut context, b"abc").map_err(|error| error.kind());
    for _ in 0..3 {
        assert_eq!(write(), Poll::Ready(Ok(3)));
        assert_eq!(write(), Poll::Pending);
        clock.advance(SEC - MS);
        assert_eq!(write(), Poll::Pending);
        on_a_runtime(client.read_exact(&mut [0; 3])).unwrap();
    }
    assert_eq!(write(), Poll::Ready(Ok(3)));
    assert_eq!((write(), timer.len()), (Poll::Pending, 1));
    clock.advance(SEC);
    assert_eq!(write(), Poll::Ready(Err(ErrorKind::TimedOut)));
    assert_balanced(&timer);
}

/// Why the page limits this stream to HTTP/1. If this fails, hyper has learnt to end such a stream, and the page can say
/// so.
#[test]
fn an_http2_client_without_a_window_keeps_its_connection() {
    let timer = Timer::new().unwrap();
    on_a_runtime(async {
        let (listener, address) = listen().await;
        let serve = async {
            let (stream, _) = listener.accept().await.unwrap();
            let stream = LimitedWrites { stream, timer: timer.clone(), limit: LIMIT, pending: None };
            let service = TowerToHyperService::new(router(&timer));
            let builder = auto::Builder::new(TokioExecutor::new()).http2_only();
            timer.timeout(5 * LIMIT, builder.serve_connection(TokioIo::new(stream), service)).await
        };
        let read = async {
            let stream = TcpStream::connect(address).await.unwrap();
            let (mut sender, connection) = h2::client::handshake(stream).await.unwrap();
            tokio::spawn(connection);
            let request = Request::get("http://a/large").body(()).unwrap();
            let answer = sender.send_request(request, true).unwrap().0.await.unwrap();
            (sender, answer)
        };
        let (served, (_sender, answer)) = tokio::join!(serve, read);
        assert!(served.is_err(), "the connection has ended");
        assert_eq!(answer.status(), StatusCode::OK);
    });
}

#[test]
fn a_tls_handshake_that_stops_is_an_error() {
    let timer = Timer::new().unwrap();
    let rcgen::CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed(["localhost".into()]).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let server = ServerConfig::builder().with_no_client_auth().with_single_cert(vec![cert.der().clone()], key).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(server));
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    let client = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(client));
    on_a_runtime(async {
        let (listener, address) = listen().await;
        let accept = async |limit| {
            let (stream, _) = listener.accept().await?;
            timer.timeout(limit, acceptor.accept(stream)).await?
        };
        let start = Instant::now();
        let _silent = TcpStream::connect(address).await.unwrap();
        assert_eq!(accept(LIMIT).await.unwrap_err().kind(), ErrorKind::TimedOut);
        assert!(start.elapsed() >= LIMIT);
        let stream = TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let (accepted, connected) = tokio::join!(accept(TIMEOUT), connector.connect(name, stream));
        assert!(accepted.is_ok() && connected.is_ok());
    });
}
