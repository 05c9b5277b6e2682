//! Runs the same code under tokio, under smol, and under an executor that has no timer: corewheel needs no runtime.
//!
//! ```text
//! cargo run -p async_any
//! ```

#[macro_use]
#[path = "../../output.rs"]
mod output;

use std::future;
use std::time::{Duration, Instant};

use clap::Parser;
use corewheel::{BuildError, Timer};

const PERIOD: Duration = Duration::from_millis(20);

/// Runs the same timers under three executors.
#[derive(Parser)]
struct Args {}

fn main() -> Result<(), BuildError> {
    Args::parse();
    let timer = Timer::new()?;

    // Without `enable_time`: tokio's own timers would panic here.
    let tokio = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    report("tokio", tokio.block_on(use_timers(&timer)));
    report("smol", smol::block_on(use_timers(&timer)));
    report("futures::executor", futures::executor::block_on(use_timers(&timer)));

    println!("timers of all three: {}, pending now: {}", timer.stats().scheduled, timer.len());
    println!("\nok: under each executor, three ticks, an answer in time, and a timeout");
    Ok(())
}

/// Awaits three ticks, an answer that comes in time, and one that never comes. Returns the time that this took.
async fn use_timers(timer: &Timer) -> Duration {
    let start = Instant::now();
    let mut ticks = timer.interval(PERIOD);
    for _ in 0..3 {
        ticks.tick().await;
    }
    let answer = async {
        timer.sleep(PERIOD / 2).await;
        "an answer"
    };
    assert_eq!(timer.timeout(PERIOD, answer).await, Ok("an answer"));
    assert!(timer.timeout(PERIOD, future::pending::<()>()).await.is_err());
    start.elapsed()
}

fn report(executor: &str, took: Duration) {
    // Two periods between the three ticks, half a period for the answer, and one for the timeout.
    assert!(took >= PERIOD * 7 / 2, "{executor}: too early");
    println!("{executor:<18} {took:.1?}");
}
