//! A QUIC connection on the loopback interface that uses corewheel's timers.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/thread_time.rs"]
mod thread_time;

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::*;
use corewheel::Timer;
use corewheel::quinn::Runtime;
use quinn::{ClientConfig, Endpoint, EndpointConfig, ServerConfig, TransportConfig};
use rustls::pki_types::PrivatePkcs8KeyDer;
use thread_time::thread_time;

const IDLE: Duration = Duration::from_millis(200);

/// Returns the configurations of a server, and of a client that trusts it. A connection ends after `idle` without
/// traffic.
fn configs(idle: Duration) -> (ServerConfig, ClientConfig) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let certificate = made.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(Some(idle.try_into().unwrap()));
    let transport = Arc::new(transport);
    let mut server = ServerConfig::with_single_cert(vec![certificate.clone()], key.into()).unwrap();
    server.transport_config(transport.clone());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).unwrap();
    let mut client = ClientConfig::with_root_certificates(Arc::new(roots)).unwrap();
    client.transport_config(transport);
    (server, client)
}

fn endpoint(timer: &Timer, server: Option<ServerConfig>) -> Endpoint {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let runtime = Runtime::new(timer.clone(), Arc::new(quinn::TokioRuntime));
    Endpoint::new(EndpointConfig::default(), server, socket, Arc::new(runtime)).unwrap()
}

#[test]
fn a_connection_uses_the_timer_and_times_out() {
    // The runtime has no timers of its own.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_io().build().unwrap();
    let (timer, of_server) = (Timer::new().unwrap(), Timer::new().unwrap());
    runtime.block_on(async {
        let (server_config, client_config) = configs(IDLE);
        let server = endpoint(&of_server, Some(server_config));
        let address = server.local_addr().unwrap();
        let echo = tokio::spawn(async move {
            let connection = server.accept().await.unwrap().await.unwrap();
            let (mut send, mut receive) = connection.accept_bi().await.unwrap();
            let question = receive.read_to_end(1 << 20).await.unwrap();
            send.write_all(&question).await.unwrap();
            send.finish().unwrap();
            connection.closed().await
        });
        let mut client = endpoint(&timer, None);
        client.set_default_client_config(client_config);
        let connection = client.connect(address, "localhost").unwrap().await.unwrap();
        let (mut send, mut receive) = connection.open_bi().await.unwrap();
        let question = vec![7; 1 << 18];
        send.write_all(&question).await.unwrap();
        send.finish().unwrap();
        assert_eq!(receive.read_to_end(1 << 20).await.unwrap(), question);
        // From here on there is no traffic.
        let start = Instant::now();
        assert!(matches!(connection.closed().await, quinn::ConnectionError::TimedOut));
        assert!(matches!(echo.await.unwrap(), quinn::ConnectionError::TimedOut));
        assert!(start.elapsed() >= IDLE / 2);
    });
    for timer in [&timer, &of_server] {
        let stats = timer.stats();
        assert!(stats.scheduled > 0 && stats.fired > 0, "{stats:?}");
        assert!(stats.resets > 0, "no deadline was reset in place: {stats:?}");
    }
    drop(runtime);
    eventually("the timers of the endpoints have ended", || timer.is_empty() && of_server.is_empty());
}

/// Promise: after the shutdown.
#[test]
fn after_a_shutdown_connections_go_on_without_timeouts() {
    // Everything runs on this thread.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let timer = Timer::new().unwrap();
    runtime.block_on(async {
        let (server_config, client_config) = configs(HOUR);
        let server = endpoint(&timer, Some(server_config));
        let address = server.local_addr().unwrap();
        let mut client = endpoint(&timer, None);
        client.set_default_client_config(client_config);
        let mut connections = Vec::new();
        for _ in 0..2 {
            let accept = async { server.accept().await.unwrap().await.unwrap() };
            let connect = async { client.connect(address, "localhost").unwrap().await.unwrap() };
            connections.push(tokio::join!(connect, accept));
        }
        drop(timer.shutdown());
        let start = Instant::now();
        tokio::time::sleep(10 * MS).await;
        assert!(start.elapsed() < SEC, "the thread was blocked for {:?}", start.elapsed());
        let busy = thread_time();
        tokio::time::sleep(300 * MS).await;
        let busy = thread_time() - busy;
        assert!(busy < 100 * MS, "{busy:?} of processor time while everything is idle");
        // Traffic that needs no timer continues.
        for (mine, theirs) in connections {
            let mut send = mine.open_uni().await.unwrap();
            send.write_all(b"hello").await.unwrap();
            send.finish().unwrap();
            let hello = async { theirs.accept_uni().await.unwrap().read_to_end(100).await.unwrap() };
            assert_eq!(tokio::time::timeout(TIMEOUT, hello).await.unwrap(), b"hello");
            mine.close(0u32.into(), b"");
            let closed = tokio::time::timeout(TIMEOUT, theirs.closed()).await.unwrap();
            assert!(matches!(closed, quinn::ConnectionError::ApplicationClosed(_)));
        }
    });
    assert_balanced(&timer);
}

/// Promise: after the shutdown.
#[test]
fn a_shutdown_completes_no_timer_of_quinn() {
    use quinn::Runtime as _;
    use std::task::{Context, Waker};
    let (timer, clock) = in_virtual_time();
    let runtime = Runtime::new(timer.clone(), Arc::new(quinn::TokioRuntime));
    let mut context = Context::from_waker(Waker::noop());
    let mut before = runtime.new_timer(clock.now() + SEC);
    assert!(before.as_mut().poll(&mut context).is_pending());
    drop(timer.shutdown());
    for mut sleep in [before, runtime.new_timer(clock.now() + HOUR)] {
        for _ in 0..3 {
            assert!(sleep.as_mut().poll(&mut context).is_pending());
        }
        sleep.as_mut().reset(clock.now() + 2 * SEC);
        for _ in 0..3 {
            assert!(sleep.as_mut().poll(&mut context).is_pending());
        }
        clock.advance(2 * SEC);
        assert!(sleep.as_mut().poll(&mut context).is_ready());
    }
}
