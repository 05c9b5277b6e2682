//! A hyper server that takes every timeout from corewheel, and the same server on tokio's timer, under the same load.
//!
//! ```text
//! cargo run --release -p http_server
//! cargo run --release -p http_server -- --timer corewheel --seconds 10 --connections 200
//! ```
//!
//! Each request arms three timers. The server limits the time that a client may take to send its header, and the time
//! of an answer; the client limits the time that it waits for the server. The load runs in the same process, so only
//! the comparison of the two timers is meaningful. They take turns.

#[macro_use]
#[path = "../../output.rs"]
mod output;
#[path = "../../server/files.rs"]
mod files;

use std::convert::Infallible;
use std::error::Error;
use std::future::{self, Future};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

use clap::{Parser, ValueEnum};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper::{Request, Response, client::conn::http1 as client};
use hyper_util::rt::{TokioIo, TokioTimer};
use nix::time::{ClockId, clock_gettime};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};

type BoxError = Box<dyn Error + Send + Sync>;
type Result<T, E = BoxError> = std::result::Result<T, E>;

const HEADER: Duration = Duration::from_secs(10);
const ANSWER: Duration = Duration::from_secs(30);
const REQUEST: Duration = Duration::from_secs(60);
/// Between an error of `accept` and the next attempt.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves HTTP on loopback under load, and prints the rate of requests and the CPU time of each.
#[derive(Parser)]
struct Args {
    /// The timers to measure
    #[arg(long, value_enum, default_value = "both")]
    timer: Which,
    /// Seconds of load for each timer, in turns of one second
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Number of connections, each with one request at a time
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..))]
    connections: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Which {
    Corewheel,
    Tokio,
    Both,
}

/// What the server and the client need of a timer.
trait Timers: Clone + Send + Sync + 'static {
    const NAME: &'static str;
    type HyperTimer: hyper::rt::Timer + Send + Sync + 'static;

    fn runtime() -> Runtime;
    fn hyper_timer(&self) -> Self::HyperTimer;
    /// Returns the output of a future, or `None` if it takes longer than `limit`.
    fn within<F: Future + Send>(&self, limit: Duration, future: F) -> impl Future<Output = Option<F::Output>> + Send;
}

impl Timers for corewheel::Timer {
    const NAME: &'static str = "corewheel";
    type HyperTimer = Self;

    fn runtime() -> Runtime {
        // Without tokio's timers.
        Builder::new_multi_thread().enable_io().build().expect("a runtime")
    }

    fn hyper_timer(&self) -> Self {
        self.clone()
    }

    async fn within<F: Future + Send>(&self, limit: Duration, future: F) -> Option<F::Output> {
        self.timeout(limit, future).await.ok()
    }
}

#[derive(Clone)]
struct Tokio;

impl Timers for Tokio {
    const NAME: &'static str = "tokio";
    type HyperTimer = TokioTimer;

    fn runtime() -> Runtime {
        Builder::new_multi_thread().enable_all().build().expect("a runtime")
    }

    fn hyper_timer(&self) -> TokioTimer {
        TokioTimer::new()
    }

    async fn within<F: Future + Send>(&self, limit: Duration, future: F) -> Option<F::Output> {
        tokio::time::timeout(limit, future).await.ok()
    }
}

/// Accepts the next connection. Goes on after an error, which must not end the server.
async fn accept(listener: &TcpListener, timers: &impl Timers) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            // This peer has gone.
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset) => {}
            // Too many open files, perhaps. Without a pause the loop would only use the processor.
            Err(error) => {
                eprintln!("accept: {error}");
                timers.within(PAUSE, future::pending::<()>()).await;
            }
        }
    }
}

async fn serve(timers: impl Timers, listener: TcpListener) {
    loop {
        let stream = accept(&listener, &timers).await;
        let timers = timers.clone();
        tokio::spawn(async move {
            let answer = |_: Request<Incoming>| async {
                let answer = timers.within(ANSWER, async { Full::new(Bytes::from_static(b"hello")) }).await;
                Ok::<_, Infallible>(Response::new(answer.unwrap_or_default()))
            };
            let mut builder = server::Builder::new();
            builder.timer(timers.hyper_timer()).header_read_timeout(HEADER);
            // It is no error that a client closes its connection.
            let _ = builder.serve_connection(TokioIo::new(stream), service_fn(answer)).await;
        });
    }
}

/// Sends requests on one connection, one after the other. Returns the number of answers.
async fn load(timers: impl Timers, address: SocketAddr, until: Instant) -> Result<u64> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) = client::handshake::<_, Empty<Bytes>>(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let mut answered = 0;
    while Instant::now() < until {
        let request = Request::get("/").header("host", "localhost").body(Empty::new())?;
        let exchange = async { sender.send_request(request).await?.into_body().collect().await };
        let answer = timers.within(REQUEST, exchange).await.ok_or("no answer")??;
        if answer.to_bytes() != "hello" {
            return Err("an unexpected answer".into());
        }
        answered += 1;
    }
    Ok(answered)
}

#[derive(Default)]
struct Sum {
    requests: u64,
    time: Duration,
    cpu: Duration,
    /// The part of `cpu` in threads that only drive timers.
    threads: Duration,
}

/// Puts the server under load for one second, and adds the result to `sum`.
fn turn<T: Timers>(timers: T, connections: u64, sum: &mut Sum) -> Result<()> {
    let runtime = T::runtime();
    let cpu = cpu_time();
    let threads = timer_threads();
    let start = Instant::now();
    let until = start + Duration::from_secs(1);
    let answered = Arc::new(AtomicU64::new(0));
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        tokio::spawn(serve(timers.clone(), listener));
        let loads: Vec<_> = (0..connections)
            .map(|_| {
                let (timers, answered) = (timers.clone(), answered.clone());
                tokio::spawn(async move {
                    answered.fetch_add(load(timers, address, until).await?, Ordering::Relaxed);
                    Ok::<_, BoxError>(())
                })
            })
            .collect();
        for load in loads {
            load.await??;
        }
        Ok::<_, BoxError>(())
    })?;
    sum.requests += answered.load(Ordering::Relaxed);
    sum.time += start.elapsed();
    sum.cpu += cpu_time() - cpu;
    sum.threads += timer_threads().saturating_sub(threads);
    Ok(())
}

fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("the clock of the process's CPU time exists").into()
}

/// Returns the CPU time of corewheel's threads; tokio's timer has no threads. Zero if the system does not report it.
fn timer_threads() -> Duration {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().filter_map(|task| Some(task.ok()?.path()));
    let ours =
        tasks.filter(|task| fs::read_to_string(task.join("comm")).is_ok_and(|name| name.starts_with("corewheel")));
    let nanos = ours.filter_map(|task| {
        let times = fs::read_to_string(task.join("schedstat")).ok()?;
        times.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get());
    files::raise_limit(2 * args.connections as usize, cores)
        .map_err(|error| format!("{error}, or pass fewer --connections"))?;
    let timer = corewheel::Timer::new()?;
    let (mut ours, mut theirs) = (Sum::default(), Sum::default());
    for second in 0..args.seconds {
        // The two timers swap their order each second.
        let pair = [Which::Corewheel, Which::Tokio];
        for which in if second % 2 == 0 { pair } else { [pair[1], pair[0]] } {
            match which {
                _ if args.timer != Which::Both && args.timer != which => {}
                Which::Tokio => turn(Tokio, args.connections, &mut theirs)?,
                _ => turn(timer.clone(), args.connections, &mut ours)?,
            }
        }
    }
    println!("{} connections, {cores} cores, server and load in one process\n", args.connections);
    println!("timers        requests/s   CPU µs/request   of which the timer's threads");
    for (name, sum) in [(corewheel::Timer::NAME, ours), (Tokio::NAME, theirs)] {
        if sum.time > Duration::ZERO {
            if sum.requests == 0 {
                return Err(format!("no request was answered on the timers of {name}").into());
            }
            let each = |time: Duration| time.as_secs_f64() * 1e6 / sum.requests as f64;
            let rate = sum.requests as f64 / sum.time.as_secs_f64();
            println!("{name:<12} {rate:>11.0} {:>16.2} {:>30.2}", each(sum.cpu), each(sum.threads));
        }
    }
    let stats = timer.stats();
    println!("\ncorewheel: {} timers, {} reset, {} fired", stats.scheduled, stats.resets, stats.fired);
    println!("\nok: every answer came in time");
    Ok(())
}
