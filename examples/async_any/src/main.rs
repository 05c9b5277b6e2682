//! The same code under tokio, under smol, and under an executor that knows nothing of time: timers need no runtime.
//!
//! ```text
//! cargo run -p async_any
//! ```

use std::future;
use std::time::{Duration, Instant};

use corewheel::{BuildError, Timer};

const PERIOD: Duration = Duration::from_millis(20);

fn main() -> Result<(), BuildError> {
    let timer = Timer::new()?;

    // Without `enable_time`: a timer of tokio's own would panic here.
    let tokio = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    report("tokio", tokio.block_on(visit(&timer)));
    report("smol", smol::block_on(visit(&timer)));
    report("futures::executor", futures::executor::block_on(visit(&timer)));

    println!("timers of all three: {}, pending now: {}", timer.stats().scheduled, timer.len());
    Ok(())
}

/// Three ticks, one answer that comes in time, and one that does not. How long it took.
async fn visit(timer: &Timer) -> Duration {
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
    // Two periods between three ticks, half a one for the answer, one for that which did not come.
    assert!(took >= PERIOD * 7 / 2, "{executor}: too early");
    println!("{executor:<18} {took:.1?}");
}
