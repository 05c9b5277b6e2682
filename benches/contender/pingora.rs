//! The timer of pingora: slots of 10 ms, separate for each thread.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Wake;
use std::time::Duration;

use pingora_timeout::fast_timeout::fast_sleep;

use super::interface::{Contender, boxed};

/// A timer is a `fast_sleep` that has been polled once, with the target as its waker. It cannot be cancelled: dropping
/// the future removes it from the list of its slot, but the slot stays.
pub struct FastTimeout;

type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Contender for FastTimeout {
    const NAME: &'static str = "pingora";
    /// It rounds down to whole milliseconds.
    const EARLY: Duration = Duration::from_millis(1);
    type Handle = Sleep;

    fn start() -> Self {
        Self
    }

    fn schedule(&self, delay: Duration, target: Arc<impl Wake + Send + Sync + 'static>) -> Sleep {
        boxed(fast_sleep(delay), target)
    }

    fn cancel(&self, _: Sleep) -> Option<bool> {
        None
    }

    fn rearm(
        &self,
        sleep: &mut Sleep,
        delay: Duration,
        target: &Arc<impl Wake + Send + Sync + 'static>,
    ) -> Option<bool> {
        *sleep = self.schedule(delay, target.clone());
        None
    }
}
