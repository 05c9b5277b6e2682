//! Schedules nothing: what is left is the benchmark's own share.

use std::sync::Arc;
use std::task::Wake;
use std::time::Duration;

use crate::contender::Contender;

pub struct Nothing;

impl Contender for Nothing {
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
