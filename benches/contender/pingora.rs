//! The timer of pingora: slots of 10 ms, of which each thread has its own.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Wake;
use std::time::Duration;

use pingora_timeout::fast_timeout::fast_sleep;

use super::{Contender, poll};

/// A timer is a `fast_sleep` that has been polled once, by a waker that is the target. It cannot be cancelled: dropping
/// the future takes it off the list of its slot, and the slot stays.
pub struct FastTimeout;

type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Contender for FastTimeout {
    const NAME: &'static str = "pingora";
    /// It counts in whole milliseconds, and rounds down.
    const EARLY: Duration = Duration::from_millis(1);
    type Handle = Sleep;

    fn start() -> Self {
        Self
    }

    fn schedule(&self, delay: Duration, target: Arc<impl Wake + Send + Sync + 'static>) -> Sleep {
        let mut sleep = Box::pin(fast_sleep(delay));
        poll(sleep.as_mut(), target);
        sleep
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
