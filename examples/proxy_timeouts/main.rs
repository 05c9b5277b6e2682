//! The timeouts of a reverse proxy with 100,000 connections, re-armed on every byte, in virtual time.
//!
//! ```text
//! cargo run --release --example proxy_timeouts
//! ```
//!
//! A proxy waits for the upstream server to connect, for a request's header however it trickles in, for the next byte
//! whichever way it goes, and for the next request: in nginx and Envoy, too, each of these has its timeout. A
//! connection has one or two timers at a time. Nearly all are cancelled; that for the next byte is moved at every byte.
//! In Go such timeouts have been put on RussellLuo's `timingwheel`, Kafka's wheel with a delay queue, where a byte
//! stops one timer and makes another under the locks of two buckets. Here it writes the new deadline down, and no other
//! thread hears of it.
//!
//! Most clients behave. The others stall, each at a point that one of the timers is for: the connection must be closed
//! by that timer, in its tick, and no other connection may be. Nobody waits for the clock: a minute takes a second or
//! two.
//!
//! | file     | concern                                                 |
//! |----------|---------------------------------------------------------|
//! | `proxy`  | the timers of a connection, and what becomes of it      |
//! | `client` | what comes in: requests, and stalls                     |

mod client;
mod proxy;

use std::time::{Duration, Instant};

use client::Client;
use corewheel::{BuildError, Wheel};
use fastrand::Rng;
use indicatif::{HumanCount, ProgressBar};
use proxy::{End, Proxy, Wait};

/// Of the timer, and of the traffic.
const TICK: Duration = Duration::from_millis(50);
const SECOND: u64 = 20;

const CONNECTIONS: usize = 100_000;
/// Ticks within which they are opened.
const OPENING: u64 = 10 * SECOND;

fn main() -> Result<(), BuildError> {
    let start = Instant::now();
    let mut proxy = Proxy::start(CONNECTIONS)?;
    let mut rng = Rng::with_seed(100_000);
    let mut clients: Vec<Client> = (0..CONNECTIONS).map(Client::new).collect();
    // Which client does something when.
    let mut traffic = Wheel::new(0);
    (0..CONNECTIONS).for_each(|client| _ = traffic.insert(rng.u64(1..=OPENING), client));

    let (mut now, mut most) = (0, 0);
    let mut due = Vec::new();
    let bar = ProgressBar::new(CONNECTIONS as u64);
    while !traffic.is_empty() || !proxy.timer.is_empty() {
        now += 1;
        proxy.pass_tick(now);
        traffic.advance(now, |_, client| due.push(client));
        for client in due.drain(..) {
            if proxy.connections[client].end.is_none() {
                let pause = clients[client].act(&mut proxy, now, &mut rng);
                pause.map(|pause| traffic.insert(now + pause, client));
            }
        }
        most = most.max(proxy.timer.len());
        bar.set_position(proxy.ended);
    }
    bar.finish_and_clear();
    check(&clients, &proxy);
    report(&proxy, now, most, start.elapsed());
    Ok(())
}

/// Each connection has been closed by its client, or on time by the timer that is for the way in which it stalled.
fn check(clients: &[Client], proxy: &Proxy) {
    for (client, connection) in clients.iter().zip(&proxy.connections) {
        let expected = client.stalls.map_or(End::Closed, |wait| End::TimedOut(wait, client.since + wait.ticks()));
        assert_eq!(connection.end, Some(expected), "connection {}", client.id);
    }
    let stats = proxy.timer.stats();
    let timed_out = clients.iter().filter(|client| client.stalls.is_some()).count() as u64;
    assert_eq!((stats.scheduled, stats.rearmed), (proxy.armed.iter().sum(), proxy.moved));
    assert_eq!((stats.completed, stats.cancelled), (timed_out, stats.scheduled - timed_out));
}

fn report(proxy: &Proxy, ticks: u64, most: usize, took: Duration) {
    let count = |count: u64| HumanCount(count).to_string();
    println!("{:<12}{:>10}{:>12}{:>12}{:>12}", "timeout", "after", "armed", "moved", "fired");
    for wait in Wait::ALL {
        let fired = proxy.connections.iter().filter(|it| matches!(it.end, Some(End::TimedOut(by, _)) if by == wait));
        let [fired, armed] = [fired.count() as u64, proxy.armed[wait as usize]].map(count);
        let moved = if wait == Wait::Idle { count(proxy.moved) } else { "-".to_owned() };
        let after = format!("{} s", wait.ticks() / SECOND);
        println!("{:<12}{after:>10}{armed:>12}{moved:>12}{fired:>12}", format!("{wait:?}"));
    }
    let stats = proxy.timer.stats();
    println!();
    let row = |name: &str, value: String| println!("{name:<46}{value:>12}");
    row("connections", count(CONNECTIONS as u64));
    row("most timers at once", count(most as u64));
    row("timers armed, moved and cancelled", count(stats.scheduled + stats.rearmed + stats.cancelled));
    row("  of which the timer's thread has heard", count(stats.enqueued));
    row("time that has passed", format!("{:.1} s", (TICK * ticks as u32).as_secs_f64()));
    row("  and how long that took, the traffic included", format!("{:.1} s", took.as_secs_f64()));
    println!("\nok: closed all that stalled and no other, each by the right timer, at its tick");
}
