//! The timer of `kestrel-timer`: a wheel behind a mutex, which a task of tokio advances each 10 ms.

use std::sync::Arc;
use std::task::Wake;
use std::time::Duration;

use kestrel_timer::{CallbackWrapper, TimerHandle, TimerTask, TimerWheel};
use tokio::runtime::{Builder, Runtime};

use super::interface::Contender;
use crate::harness::threads::cores;

/// A callback returns a future, which runs in a task of its own.
pub struct Kestrel {
    wheel: TimerWheel,
    _runtime: Runtime,
}

impl Contender for Kestrel {
    const NAME: &'static str = "kestrel-timer";
    type Handle = TimerHandle;

    fn start() -> Self {
        let runtime =
            Builder::new_multi_thread().worker_threads(cores()).enable_time().build().expect("the runtime starts");
        let wheel = {
            let _context = runtime.enter();
            TimerWheel::with_defaults()
        };
        Self { wheel, _runtime: runtime }
    }

    fn schedule(&self, delay: Duration, target: Arc<impl Wake + Send + Sync + 'static>) -> TimerHandle {
        let callback = CallbackWrapper::new(move || {
            target.wake_by_ref();
            std::future::ready(())
        });
        let task = TimerTask::new_oneshot(delay, Some(callback));
        let registered = self.wheel.register(self.wheel.allocate_handle(), task);
        registered.expect("the wheel is open").into_parts().1
    }

    fn cancel(&self, handle: TimerHandle) -> Option<bool> {
        Some(handle.cancel().expect("the handle is of this wheel"))
    }

    fn rearm(
        &self,
        handle: &mut TimerHandle,
        delay: Duration,
        _: &Arc<impl Wake + Send + Sync + 'static>,
    ) -> Option<bool> {
        Some(handle.postpone(delay, None).expect("the handle is of this wheel"))
    }
}
