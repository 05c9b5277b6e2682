//! The timeouts of a reverse proxy with 100,000 connections, reset on every byte, in virtual time.
//!
//! ```text
//! cargo run --release --example proxy_timeouts
//! ```
//!
//! A proxy waits for four events: the connection to the upstream server, the end of a request's header, the next byte
//! in either direction, and the next request. As in nginx and Envoy, each wait has its own timeout. A connection has
//! one or two timers at a time. Nearly all of them are cancelled, and every byte resets the idle timer. In Go, such
//! timeouts may run on RussellLuo's `timingwheel`, which is Kafka's wheel with a delay queue. It has no reset, so each
//! byte stops one timer and starts another, under the locks of two buckets. Here, each byte stores the new deadline in
//! the timer's entry and wakes no other thread.
//!
//! Most clients behave. The others stall, each in one of the four waits. Exactly the timer of that wait must close the
//! connection, in its tick, and no timer may close any other connection. Virtual time jumps from tick to tick, so a
//! minute takes a second or two.
//!
//! | file     | contents                                                |
//! |----------|---------------------------------------------------------|
//! | `proxy`  | the connections, their timers, and how they end         |
//! | `client` | the traffic: requests, and stalls                       |
//! | `tick`   | the unit of time                                        |

#[path = "../options.rs"]
mod options;
#[macro_use]
#[path = "../output.rs"]
mod output;

mod client;
mod proxy;
mod tick;

use std::time::{Duration, Instant};

use client::Client;
use corewheel::{BuildError, Wheel};
use fastrand::Rng;
use output::count;
use proxy::{End, Proxy, Wait};
use tick::{SECOND, TICK};

const CONNECTIONS: usize = 100_000;
/// Ticks within which the clients open all connections.
const OPENING: u64 = 10 * SECOND;
/// Ticks from one line about the progress to the next.
const PROGRESS: u64 = 10 * SECOND;

fn main() -> Result<(), BuildError> {
    options::none(
        "Serves 100,000 connections in virtual time, and checks that exactly those that stall are closed, each on time.",
    );
    let start = Instant::now();
    let mut proxy = Proxy::start(CONNECTIONS)?;
    let mut rng = Rng::with_seed(100_000);
    let mut clients: Vec<Client> = (0..CONNECTIONS).map(Client::new).collect();
    // The tick at which each client makes its next step.
    let mut traffic = Wheel::new(0);
    (0..CONNECTIONS).for_each(|client| _ = traffic.insert(rng.u64(1..=OPENING), client));

    let (mut now, mut most) = (0, 0);
    let mut due = Vec::new();
    while !traffic.is_empty() || !proxy.timer.is_empty() {
        now += 1;
        proxy.advance_tick(now);
        traffic.advance(now, |_, client| due.push(client));
        for client in due.drain(..) {
            if proxy.connections[client].end.is_none() {
                let pause = clients[client].act(&mut proxy, now, &mut rng);
                pause.map(|pause| traffic.insert(now + pause, client));
            }
        }
        most = most.max(proxy.timer.len());
        if now % PROGRESS == 0 {
            println!("{:>3} s: {:>7} connections have ended", now / SECOND, count(proxy.ended));
        }
    }
    println!();
    check(&clients, &proxy);
    report(&proxy, now, most, start.elapsed());
    Ok(())
}

/// Checks that each connection was closed by its client, or on time by the timer of the wait in which the client
/// stalled.
fn check(clients: &[Client], proxy: &Proxy) {
    for (client, connection) in clients.iter().zip(&proxy.connections) {
        let expected = client.stalls.map_or(End::Closed, |wait| End::TimedOut(wait, client.since + wait.ticks()));
        assert_eq!(connection.end, Some(expected), "connection {}", client.id);
    }
    let stats = proxy.timer.stats();
    let timed_out = clients.iter().filter(|client| client.stalls.is_some()).count() as u64;
    assert_eq!((stats.scheduled, stats.resets), (proxy.armed.iter().sum(), proxy.resets));
    assert_eq!((stats.completed, stats.cancelled), (timed_out, stats.scheduled - timed_out));
}

fn report(proxy: &Proxy, ticks: u64, most: usize, took: Duration) {
    println!("{:<12}{:>10}{:>12}{:>12}{:>12}", "timeout", "after", "armed", "reset", "fired");
    for wait in Wait::ALL {
        let fired = proxy.connections.iter().filter(|it| matches!(it.end, Some(End::TimedOut(by, _)) if by == wait));
        let [fired, armed] = [fired.count() as u64, proxy.armed[wait as usize]].map(count);
        let resets = if wait == Wait::Idle { count(proxy.resets) } else { "-".to_owned() };
        let after = format!("{} s", wait.ticks() / SECOND);
        println!("{:<12}{after:>10}{armed:>12}{resets:>12}{fired:>12}", format!("{wait:?}"));
    }
    let stats = proxy.timer.stats();
    println!();
    let row = |name: &str, value: String| println!("{name:<46}{value:>12}");
    row("connections", count(CONNECTIONS as u64));
    row("most timers at once", count(most as u64));
    row("timers armed, reset and cancelled", count(stats.scheduled + stats.resets + stats.cancelled));
    row("  of which enqueued for the driver", count(stats.enqueued));
    row("virtual time", format!("{:.1} s", (TICK * ticks as u32).as_secs_f64()));
    row("  real time that this took, with the traffic", format!("{:.1} s", took.as_secs_f64()));
    println!("\nok: exactly the stalled connections were closed, each by the right timer, at its tick");
}
