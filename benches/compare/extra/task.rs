//! A tokio task for each timer, for slow callbacks.

use std::sync::Arc;
use std::task::Wake;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::task::{AbortHandle, spawn_blocking};
use tokio::time::sleep;

use crate::contender::Contender;

/// A timer is a task that sleeps and then calls back. With `BLOCKING`, the task calls back on the growing pool of
/// `spawn_blocking`, as tokio recommends for code that may block.
pub struct TokioTask<const BLOCKING: bool = false>(Runtime);

impl<const BLOCKING: bool> Contender for TokioTask<BLOCKING> {
    const NAME: &'static str = if BLOCKING { "tokio-blocking" } else { "tokio-task" };
    type Handle = AbortHandle;

    fn start() -> Self {
        let runtime = Builder::new_multi_thread().enable_time().build();
        Self(runtime.expect("the runtime starts"))
    }

    fn schedule(&self, delay: Duration, target: Arc<impl Wake + Send + Sync + 'static>) -> AbortHandle {
        let task = self.0.spawn(async move {
            sleep(delay).await;
            if BLOCKING {
                spawn_blocking(|| target.wake());
            } else {
                target.wake();
            }
        });
        task.abort_handle()
    }

    fn cancel(&self, task: AbortHandle) -> Option<bool> {
        task.abort();
        None
    }

    fn rearm(
        &self,
        task: &mut AbortHandle,
        delay: Duration,
        target: &Arc<impl Wake + Send + Sync + 'static>,
    ) -> Option<bool> {
        self.cancel(task.clone());
        *task = self.schedule(delay, target.clone());
        None
    }
}
