//! A pingora proxy whose timeouts are corewheel's, by one line in its manifest.
//!
//! ```text
//! cd examples/pingora && cargo run --release
//! ```
//!
//! The proxy has three origins on loopback: one that accepts no connection, one that never answers, and one that does
//! not read. Each request must end by the right timeout: not before its time, and soon after it. A fourth origin
//! answers, and the timers of its requests are cancelled, and leave nothing behind.

mod origins;
mod proxy;

use std::error::Error;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use clap::Parser;
use corewheel::Timer;
use origins::Origins;
use proxy::LIMITS;

/// Sends requests through a proxy, of which some must time out.
#[derive(Parser)]
struct Args {}

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

/// A request ends at most so long after its timeout.
const LATE: Duration = Duration::from_secs(2);
const ANSWERED: u64 = 200;

fn main() -> Result<()> {
    Args::parse();
    let origins = Origins::start()?;
    let proxy = proxy::start(&origins)?;

    for _ in 0..ANSWERED {
        let (status, _) = request(proxy, "/answers", 0)?;
        if status != Some(200) {
            return Err(format!("an origin that answers was answered with {status:?}").into());
        }
    }
    let stats = Timer::global().stats();
    println!("{ANSWERED} requests that were answered: {} timers, {} fired", stats.scheduled, stats.fired);

    println!("\n{:<22}{:>12}{:>14}{:>10}", "an origin that", "limit", "ended after", "status");
    // The proxy has not sent its answer while it cannot send the request, so the request has a body that no buffer takes.
    for (path, what, limit, body) in [
        ("/full", "accepts nothing", LIMITS.connect, 0),
        ("/silent", "answers nothing", LIMITS.read, 0),
        ("/deaf", "reads nothing", LIMITS.write, 64 << 20),
    ] {
        let fired = Timer::global().stats().fired;
        let (status, took) = request(proxy, path, body)?;
        let shown = status.map_or("closed".to_owned(), |status| status.to_string());
        println!("{what:<22}{limit:>12.0?}{took:>14.1?}{shown:>10}");
        if took < limit || took > limit + LATE {
            return Err(format!("{what}: the limit is {limit:?}, and the request ended after {took:?}").into());
        }
        if status.is_some_and(|status| status < 500) || Timer::global().stats().fired == fired {
            return Err(format!("{what}: no timer has ended the request").into());
        }
    }
    println!("\nok: each request ended by its timeout, or by its answer");
    Ok(())
}

/// Sends a request. Returns the status of the answer, if one has come, and the time until the end.
fn request(proxy: SocketAddr, path: &str, body: usize) -> Result<(Option<u16>, Duration)> {
    let begun = Instant::now();
    let mut stream = TcpStream::connect(proxy)?;
    write!(stream, "POST {path} HTTP/1.1\r\nhost: loopback\r\nconnection: close\r\ncontent-length: {body}\r\n\r\n")?;
    let mut sender = stream.try_clone()?;
    // The proxy may close the connection while the body is sent.
    let sending = std::thread::spawn(move || sender.write_all(&vec![0; body]));
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Err(error) if error.kind() != ErrorKind::ConnectionReset => return Err(error.into()),
        _ => {}
    }
    let took = begun.elapsed();
    stream.shutdown(std::net::Shutdown::Both).unwrap_or(());
    drop(sending.join());
    let status = String::from_utf8_lossy(&answer).split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok((status, took))
}
