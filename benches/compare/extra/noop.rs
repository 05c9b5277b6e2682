//! A contender that does nothing, to measure the cost of the benchmark itself.

use std::sync::Arc;
use std::task::Wake;
use std::time::Duration;

use crate::contender::Contender;

pub struct Noop;

impl Contender for Noop {
    const NAME: &'static str = "none";
    type Handle = ();

    fn start() -> Self {
        Self
    }

    fn schedule(&self, _: Duration, _: Arc<impl Wake + Send + Sync + 'static>) {}

    fn cancel(&self, (): ()) -> Option<bool> {
        None
    }

    fn rearm(&self, (): &mut (), _: Duration, _: &Arc<impl Wake + Send + Sync + 'static>) -> Option<bool> {
        None
    }
}
