//! This crate's timer.

use std::sync::Arc;
use std::task::Wake;
use std::time::Duration;

use corewheel::{Executor, Timer, TimerHandle};

use super::Contender;

/// The tick that users get by default.
const DEFAULT_TICK: u64 = 1000;

/// With a tick of so many microseconds.
pub struct CoreWheel<const TICK: u64 = DEFAULT_TICK>(Timer);

impl<const TICK: u64> Contender for CoreWheel<TICK> {
    const NAME: &'static str = if TICK == DEFAULT_TICK { "corewheel" } else { "corewheel-fine" };
    type Handle = TimerHandle;

    fn start(pool: usize) -> Self {
        let timer = Timer::builder().tick(Duration::from_micros(TICK)).executor(Executor::Pool { threads: pool });
        Self(timer.build().expect("the timer starts"))
    }

    fn schedule(&self, delay: Duration, target: Arc<impl Wake + Send + Sync + 'static>) -> TimerHandle {
        self.0.schedule(delay, move || target.wake()).expect("the timer is open")
    }

    fn cancel(&self, handle: TimerHandle) -> Option<bool> {
        Some(handle.cancel())
    }

    fn rearm(
        &self,
        handle: &mut TimerHandle,
        delay: Duration,
        _: &Arc<impl Wake + Send + Sync + 'static>,
    ) -> Option<bool> {
        Some(handle.reset(delay))
    }
}
