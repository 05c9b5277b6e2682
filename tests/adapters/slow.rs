//! Clients that are slow where no timeout of hyper is: within a body, and within a TLS handshake.

#[path = "../common/mod.rs"]
mod common;

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Bytes;
use axum::error_handling::HandleErrorLayer;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{BoxError, Router};
use common::*;
use corewheel::tower::TimeoutLayer;
use corewheel::{Elapsed, Timer};
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime;
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tower::ServiceBuilder;

fn on_a_runtime<T>(test: impl Future<Output = T>) -> T {
    runtime::Builder::new_current_thread().enable_io().build().unwrap().block_on(test)
}

#[test]
fn a_body_that_stops_ends_the_request_under_axum() {
    let timer = Timer::new().unwrap();
    let too_late = async |error: BoxError| {
        assert!(error.is::<Elapsed>());
        StatusCode::GATEWAY_TIMEOUT
    };
    let limits =
        ServiceBuilder::new().layer(HandleErrorLayer::new(too_late)).layer(TimeoutLayer::new(timer.clone(), 100 * MS));
    let app = Router::new().route("/", post(async |body: Bytes| body)).layer(limits);
    on_a_runtime(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(axum::serve(listener, app).into_future());
        for (sent, status, body) in [("abc", "504", ""), ("abcdefghij", "200", "abcdefghij")] {
            let start = Instant::now();
            let mut stream = TcpStream::connect(address).await.unwrap();
            let head = "POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 10\r\n\r\n";
            stream.write_all((head.to_owned() + sent).as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")) && answer.ends_with(body), "{answer}");
            assert!(status == "200" || start.elapsed() >= 100 * MS);
        }
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
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let accept = async |limit| {
            let (stream, _) = listener.accept().await?;
            timer.timeout(limit, acceptor.accept(stream)).await?
        };
        let start = Instant::now();
        let _silent = TcpStream::connect(address).await.unwrap();
        assert_eq!(accept(100 * MS).await.unwrap_err().kind(), ErrorKind::TimedOut);
        assert!(start.elapsed() >= 100 * MS);
        let stream = TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let (accepted, connected) = tokio::join!(accept(TIMEOUT), connector.connect(name, stream));
        assert!(accepted.is_ok() && connected.is_ok());
    });
}
