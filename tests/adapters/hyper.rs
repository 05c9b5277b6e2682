//! A hyper server and client that take their timeouts from corewheel, on a runtime without a timer of its own.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/thread_time.rs"]
mod thread_time;

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};

use common::*;
use corewheel::{Sleep, Timer};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Bytes, Incoming};
use hyper::rt::Timer as _;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use thread_time::thread_time;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};

/// Counts how often a task is woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn without_timers() -> Runtime {
    Builder::new_current_thread().enable_io().build().unwrap()
}

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::new(Bytes::from("hello"))))
}

#[test]
fn a_client_that_sends_no_header_times_out() {
    const TIMEOUT: Duration = Duration::from_millis(60);
    let timer = Timer::new().unwrap();
    without_timers().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut client = TcpStream::connect(address).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nHost:").await.unwrap();
        let start = Instant::now();
        let mut builder = http1::Builder::new();
        builder.timer(timer.clone()).header_read_timeout(TIMEOUT);
        let served = builder.serve_connection(TokioIo::new(server), service_fn(hello)).await;
        assert!(served.unwrap_err().is_timeout());
        assert!(start.elapsed() >= TIMEOUT);
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap();
    });
    assert_eq!((timer.stats().fired, timer.len()), (1, 0));
}

#[test]
fn a_peer_that_answers_no_ping_times_out() {
    let timer = Timer::new().unwrap();
    without_timers().block_on(async {
        let (client, server) = tokio::io::duplex(1 << 16);
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.timer(timer.clone()).keep_alive_interval(20 * MS).keep_alive_timeout(50 * MS);
        let serve = builder.serve_connection(TokioIo::new(server), service_fn(hello));
        // After the handshake, the client's side of the connection is no longer driven.
        let shake_hands = h2::client::handshake(client);
        let (served, _client) = tokio::join!(serve, shake_hands);
        assert!(served.unwrap_err().is_timeout());
    });
    assert!(timer.stats().fired >= 2, "the interval and the timeout have fired");
}

#[test]
fn idle_connections_of_a_client_are_closed() {
    let timer = Timer::new().unwrap();
    without_timers().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let ended = Arc::new(AtomicUsize::new(0));
        let count = ended.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let count = count.clone();
                tokio::spawn(async move {
                    http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(hello)).await.unwrap();
                    count.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        let client: Client<_, Empty<Bytes>> =
            Client::builder(TokioExecutor::new()).pool_timer(timer.clone()).pool_idle_timeout(100 * MS).build_http();
        let uri: hyper::Uri = format!("http://{address}/").parse().unwrap();
        let answer = client.get(uri.clone()).await.unwrap();
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "hello");
        assert_eq!(ended.load(Ordering::SeqCst), 0, "the connection is kept for the next request");
        let start = Instant::now();
        while ended.load(Ordering::SeqCst) == 0 {
            assert!(start.elapsed() < common::TIMEOUT, "the connection is still open");
            timer.sleep(MS).await;
        }
        assert!(start.elapsed() >= 50 * MS);
    });
}

#[test]
fn a_reset_rearms_in_place() {
    let (timer, clock) = in_virtual_time();
    let mut boxed = hyper::rt::Timer::sleep(&timer, SEC);
    let mut context = Context::from_waker(Waker::noop());
    assert!(boxed.as_mut().poll(&mut context).is_pending());
    timer.reset(&mut boxed, clock.now() + 2 * SEC);
    assert_eq!((timer.stats().scheduled, timer.stats().resets), (1, 1));
    assert_eq!(boxed.as_mut().downcast_mut_pin::<Sleep>().unwrap().deadline(), clock.now() + 2 * SEC);
    clock.advance(SEC);
    assert!(boxed.as_mut().poll(&mut context).is_pending());
    clock.advance(SEC);
    assert!(boxed.as_mut().poll(&mut context).is_ready());
    assert_eq!(hyper::rt::Timer::now(&timer), clock.now());

    // A sleep that is not corewheel's is replaced.
    struct Other;
    impl Future for Other {
        type Output = ();
        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> std::task::Poll<()> {
            unreachable!("the replaced sleep was polled")
        }
    }
    impl hyper::rt::Sleep for Other {}
    let mut boxed: Pin<Box<dyn hyper::rt::Sleep>> = Box::pin(Other);
    timer.reset(&mut boxed, clock.now());
    assert!(boxed.as_mut().poll(&mut context).is_ready());
}

#[test]
fn a_reset_of_another_timers_sleep_moves_it_to_the_timer_that_resets() {
    let ((timer, clock), (other, others_clock)) = (in_virtual_time(), in_virtual_time());
    let mut context = Context::from_waker(Waker::noop());
    let sleep = || hyper::rt::Timer::sleep(&other, HOUR);
    let mut polled = sleep();
    assert!(polled.as_mut().poll(&mut context).is_pending());
    assert_eq!((other.len(), timer.len()), (1, 0));
    let unpolled = sleep();
    drop(other.shutdown());
    let after_the_shutdown = sleep();
    for mut sleep in [polled, unpolled, after_the_shutdown] {
        timer.reset(&mut sleep, clock.now() + SEC);
        assert!(sleep.as_mut().poll(&mut context).is_pending());
        assert_eq!((other.len(), timer.len()), (0, 1));
        others_clock.advance(2 * HOUR);
        assert!(sleep.as_mut().poll(&mut context).is_pending());
        // A clone is the same timer.
        timer.clone().reset(&mut sleep, clock.now() + 2 * SEC);
        clock.advance(SEC);
        assert!(sleep.as_mut().poll(&mut context).is_pending());
        clock.advance(SEC);
        assert!(sleep.as_mut().poll(&mut context).is_ready());
    }
    let (stats, others) = (timer.stats(), other.stats());
    assert_eq!((stats.scheduled, stats.resets, stats.completed), (3, 3, 3));
    assert_eq!((others.scheduled, others.resets), (1, 0));
    // It outlasts a shutdown of its new timer, as any sleep of hyper's.
    let mut sleep = hyper::rt::Timer::sleep(&Timer::new().unwrap(), HOUR);
    timer.reset(&mut sleep, clock.now() + SEC);
    drop(timer.shutdown());
    assert!(sleep.as_mut().poll(&mut context).is_pending());
    let sleep = sleep.as_mut().downcast_mut_pin::<Sleep>().unwrap();
    assert!(sleep.is_shutdown() && !sleep.is_elapsed(), "the next poll is not ready");
}

/// Promise: after the shutdown.
#[test]
fn a_shutdown_completes_no_sleep_of_hyper() {
    let (timer, clock) = in_virtual_time();
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(woken.clone());
    let mut context = Context::from_waker(&waker);
    let sleep = || hyper::rt::Timer::sleep(&timer, SEC);
    let mut elapsed = timer.sleep_until(clock.now());
    let mut pending = sleep();
    let unpolled = sleep();
    let mut late = sleep();
    assert!(pending.as_mut().poll(&mut context).is_pending() && late.as_mut().poll(&mut context).is_pending());
    drop(timer.shutdown());
    let after_the_shutdown = woken.0.load(Ordering::SeqCst);
    let mut sleeps = [pending, unpolled, sleep(), hyper::rt::Timer::sleep_until(&timer, clock.now() + SEC)];
    for reset in [false, true] {
        for sleep in &mut sleeps {
            if reset {
                timer.reset(sleep, clock.now() + 2 * SEC);
                assert_eq!(sleep.as_mut().downcast_mut_pin::<Sleep>().unwrap().deadline(), clock.now() + 2 * SEC);
            }
            for _ in 0..3 {
                assert!(sleep.as_mut().poll(&mut context).is_pending());
            }
        }
        clock.advance(HOUR);
        assert!(sleeps.iter_mut().all(|sleep| sleep.as_mut().poll(&mut context).is_ready()));
    }
    assert_eq!(woken.0.load(Ordering::SeqCst), after_the_shutdown, "a deadline woke a task");
    assert!(Pin::new(&mut elapsed).poll(&mut context).is_ready(), "its deadline had passed before the shutdown");
    assert!(late.as_mut().poll(&mut context).is_ready(), "its deadline has passed since");
    assert_balanced(&timer);
}

/// A pool with an idle connection leaves the thread to other tasks, and the client still works.
/// Promise: after the shutdown.
#[test]
fn after_a_shutdown_a_connection_pool_does_not_block_its_thread() {
    const IDLE: Duration = Duration::from_secs(5);
    let timer = Timer::new().unwrap();
    Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(hello)));
            }
        });
        let client: Client<_, Empty<Bytes>> =
            Client::builder(TokioExecutor::new()).pool_timer(timer.clone()).pool_idle_timeout(IDLE).build_http();
        let uri: hyper::Uri = format!("http://{address}/").parse().unwrap();
        for shut_down in [false, true, true] {
            let answer = client.get(uri.clone()).await.unwrap();
            assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "hello");
            if shut_down {
                drop(timer.shutdown());
            }
            let start = Instant::now();
            let busy = thread_time();
            tokio::time::sleep(10 * MS).await;
            assert!(start.elapsed() < SEC, "the thread was blocked for {:?}", start.elapsed());
            tokio::time::sleep(100 * MS).await;
            let busy = thread_time() - busy;
            assert!(busy < 50 * MS, "{busy:?} of processor time while everything is idle");
        }
    });
}

/// Promise: after the shutdown.
#[test]
fn after_a_shutdown_a_server_waits_for_headers_without_a_timeout() {
    let timer = Timer::new().unwrap();
    Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let of_server = timer.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let mut builder = http1::Builder::new();
                builder.timer(of_server.clone()).header_read_timeout(HOUR);
                tokio::spawn(builder.serve_connection(TokioIo::new(stream), service_fn(hello)));
            }
        });
        // One connection already waits for the rest of a header, and another connects later.
        let mut clients = Vec::new();
        for _ in 0..2 {
            let mut client = TcpStream::connect(address).await.unwrap();
            client.write_all(b"GET / HTTP/1.1\r\nhost:").await.unwrap();
            tokio::time::sleep(10 * MS).await;
            clients.push(client);
            drop(timer.shutdown());
        }
        let busy = thread_time();
        tokio::time::sleep(100 * MS).await;
        let busy = thread_time() - busy;
        assert!(busy < 50 * MS, "{busy:?} of processor time while everything is idle");
        for mut client in clients {
            client.write_all(b" localhost\r\nconnection: close\r\n\r\n").await.unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.unwrap();
            assert!(answer.ends_with("hello"), "{answer}");
        }
    });
}

/// Without the shutdown, this server would ping its client.
/// Promise: after the shutdown.
#[test]
fn after_a_shutdown_a_server_sends_no_pings() {
    let timer = Timer::new().unwrap();
    Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let (client, server) = tokio::io::duplex(1 << 16);
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.timer(timer.clone()).keep_alive_interval(20 * MS).keep_alive_timeout(HOUR);
        let served = tokio::spawn(builder.serve_connection(TokioIo::new(server), service_fn(hello)));
        let (mut client, connection) = h2::client::handshake(client).await.unwrap();
        let connected = tokio::spawn(connection);
        drop(timer.shutdown());
        let busy = thread_time();
        tokio::time::sleep(100 * MS).await;
        let busy = thread_time() - busy;
        assert!(busy < 50 * MS, "{busy:?} of processor time while everything is idle");
        assert!(!served.is_finished() && !connected.is_finished());
        let (answer, _) = client.send_request(Request::get("http://localhost/").body(()).unwrap(), true).unwrap();
        assert!(answer.await.unwrap().status().is_success());
        drop(client);
    });
}
