//! The functions that pingora calls.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::{Timeout, lengths, sleep_for};

/// Length from which `pingora-timeout` uses tokio's timer.
pub const DEFAULT_FAST_TIMEOUT_TO_TOKIO_THRESHOLD: Duration = Duration::from_secs(900);
/// In place of a threshold.
const NEVER: u64 = u64::MAX;
static THRESHOLD_SECS: AtomicU64 = AtomicU64::new(DEFAULT_FAST_TIMEOUT_TO_TOKIO_THRESHOLD.as_secs());

lengths! {
    /// A timeout of any length.
    FastTimeout;
    /// The timeout of [`fast_timeout`].
    FastOrTokioTimeout;
}

/// Sets what [`fast_timeout_to_tokio_threshold`] returns. Changes nothing else: a long timeout is like any other here.
pub fn set_fast_timeout_to_tokio_threshold(threshold: Option<Duration>) {
    THRESHOLD_SECS.store(threshold.map_or(NEVER, |threshold| threshold.as_secs()), Ordering::Relaxed);
}

/// Returns the threshold that was set.
pub fn fast_timeout_to_tokio_threshold() -> Option<Duration> {
    Some(THRESHOLD_SECS.load(Ordering::Relaxed)).filter(|secs| *secs != NEVER).map(Duration::from_secs)
}

/// Limits the time of a future.
pub fn fast_timeout<T: Future>(duration: Duration, future: T) -> Timeout<T, FastOrTokioTimeout> {
    Timeout::new(duration, future)
}

/// Completes after this time.
pub async fn fast_sleep(duration: Duration) {
    sleep_for(duration).await;
}

/// Does nothing: a timer takes no lock that a fork could keep, and a forked child has a timer of its own.
pub fn pause_for_fork() {}

/// Does nothing; see [`pause_for_fork`].
pub fn unpause() {}
