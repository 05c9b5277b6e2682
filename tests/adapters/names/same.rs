// Included by `names.rs`, once for each `time`.

use std::future::{IntoFuture, pending, ready};
use std::io;
use std::pin::{Pin, pin};

use time::error::Elapsed;
use time::{
    Duration, Instant, Interval, MissedTickBehavior, Sleep, Timeout, interval, interval_at, sleep, sleep_until, timeout,
    timeout_at,
};

const MS: Duration = Duration::from_millis(1);
const MINUTE: Duration = Duration::from_secs(60);

/// A client that sends a heartbeat whenever the connection has been idle for some time.
struct Heartbeats {
    idle: Pin<Box<Sleep>>,
    ticks: Interval,
}

impl Heartbeats {
    fn new(idle: Duration) -> Self {
        let mut ticks = interval_at(Instant::now() + idle, idle);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        Self { idle: Box::pin(sleep(idle)), ticks }
    }

    fn received(&mut self, idle: Duration) {
        self.idle.as_mut().reset(Instant::now() + idle);
    }
}

async fn read_in_time(limit: Duration) -> io::Result<u8> {
    Ok(timeout(limit, pending::<u8>()).await?)
}

fn named<F: IntoFuture>(limit: Duration, future: F) -> Timeout<F::IntoFuture> {
    timeout(limit, future)
}

#[tokio::test]
async fn sleeps_wait_for_their_deadline() {
    let start = Instant::now();
    sleep(5 * MS).await;
    sleep_until(start + 10 * MS).await;
    assert!(start.elapsed() >= 10 * MS);

    let slept = pin!(sleep(MINUTE));
    assert!(!slept.is_elapsed() && slept.deadline() > start + 59 * MINUTE / 60);
    assert!(format!("{slept:?}").starts_with("Sleep"));
}

#[tokio::test]
async fn a_sleep_can_be_reset_and_selected() {
    let mut client = Heartbeats::new(MINUTE);
    client.received(2 * MS);
    tokio::select! {
        () = client.idle.as_mut() => {}
        _ = client.ticks.tick() => unreachable!("a minute has not passed"),
    }
    assert!(client.idle.is_elapsed());
}

#[tokio::test]
async fn timeouts_end_or_elapse() {
    assert_eq!(timeout(MINUTE, ready(1)).await, Ok(1));
    assert_eq!(timeout_at(Instant::now() + MINUTE, async { 2 }).await, Ok(2));
    let elapsed: Result<(), Elapsed> = timeout(MS, pending()).await;
    let elapsed = elapsed.unwrap_err();
    assert_eq!(elapsed, timeout(MS, pending::<()>()).await.unwrap_err());
    assert_eq!(io::Error::from(elapsed).kind(), io::ErrorKind::TimedOut);
    assert_eq!(read_in_time(MS).await.unwrap_err().kind(), io::ErrorKind::TimedOut);

    let mut limited = named(MINUTE, ready(3));
    *limited.get_mut() = ready(4);
    assert_eq!(format!("{:?}", limited.get_ref()), format!("{:?}", ready(4)));
    assert_eq!(limited.into_inner().await, 4);
}

#[tokio::test]
async fn intervals_tick() {
    let mut ticks = interval(2 * MS);
    assert_eq!((ticks.period(), ticks.missed_tick_behavior()), (2 * MS, MissedTickBehavior::Burst));
    assert_eq!(MissedTickBehavior::default(), MissedTickBehavior::Burst);
    let first = ticks.tick().await;
    assert_eq!(ticks.tick().await, first + 2 * MS);
    ticks.reset_after(5 * MS);
    assert!(ticks.tick().await >= first + 7 * MS);
    ticks.reset_immediately();
    ticks.tick().await;
    ticks.reset_at(Instant::now() + MS);
    ticks.tick().await;
    ticks.reset();
    assert!(format!("{ticks:?}").starts_with("Interval"));
}

#[tokio::test]
#[should_panic(expected = "period")]
async fn a_period_of_zero_panics() {
    interval(Duration::ZERO);
}
