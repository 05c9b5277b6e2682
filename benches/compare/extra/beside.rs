//! A queue's callbacks.

use std::sync::Arc;
use std::task::Wake;
use std::time::Duration;

use crate::contender::Contender;

/// A queue whose service also calls back. Dropping a handle leaves its value in the queue.
pub trait Beside: Contender {
    /// Schedules a callback of the service that the queue belongs to. Returns false, without effect, if the service has
    /// no callbacks.
    fn call_back(&self, delay: Duration, target: Arc<impl Wake + Send + Sync + 'static>) -> bool;
}
