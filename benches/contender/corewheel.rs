//! This crate's timer.

use std::marker::PhantomData;
use std::sync::Arc;
use std::task::Wake;
use std::time::Duration;

use corewheel::{Builder, Timer, TimerHandle};

use super::interface::Contender;

/// A configuration of the timer, and its name.
pub trait Setting: 'static {
    const NAME: &'static str;

    fn builder() -> Builder {
        Timer::builder()
    }
}

/// The defaults, with the default pool.
pub struct Defaults;

impl Setting for Defaults {
    const NAME: &'static str = "corewheel";
}

pub struct CoreWheel<S = Defaults> {
    timer: Timer,
    setting: PhantomData<fn(S)>,
}

impl<S: Setting> Contender for CoreWheel<S> {
    const NAME: &'static str = S::NAME;
    type Handle = TimerHandle;

    fn start() -> Self {
        Self { timer: S::builder().build().expect("the timer starts"), setting: PhantomData }
    }

    fn schedule(&self, delay: Duration, target: Arc<impl Wake + Send + Sync + 'static>) -> TimerHandle {
        self.timer.schedule(delay, move || target.wake()).expect("the timer is open")
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
