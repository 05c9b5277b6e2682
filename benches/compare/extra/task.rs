//! A tokio task for each timer: for callbacks that take their time.

use std::sync::Arc;
use std::task::Wake;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::task::AbortHandle;
use tokio::time::sleep;

use crate::contender::Contender;

pub struct TokioTask(Runtime);

impl Contender for TokioTask {
    const NAME: &'static str = "tokio-task";
    type Handle = AbortHandle;

    fn start(pool: usize) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(pool).enable_time().build();
        Self(runtime.expect("the runtime starts"))
    }

    fn schedule(&self, delay: Duration, target: Arc<impl Wake + Send + Sync + 'static>) -> AbortHandle {
        let task = self.0.spawn(async move {
            sleep(delay).await;
            target.wake();
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
