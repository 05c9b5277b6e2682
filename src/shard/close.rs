//! The shutdown of one shard: closes it, and ends the timers that are pending in it.
//!
//! A service calls each step for all of its shards, before it calls the next step for any: the head of
//! `timer/service.rs` has the steps, and the reasons for their order. [`shutdown`](crate::engine::shutdown) has the
//! transitions. A driver that panics closes its own shard, and ends its values and its sleeps.
//!
//! **The memory after a shutdown.** While a shard is open, its service keeps it for all handles. `close` leaves one
//! count of the `Arc` to the handles that still exist. The thread that releases the last of them drops that count.

use std::any::Any;
use std::io::{self, Write};
use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::ptr::NonNull;
use std::sync::Arc;
use std::thread;

use super::shard::Shard;
use super::user_hooks::message_of;
use crate::engine::deliveries::Deliveries;
use crate::engine::driver::ShardDriver;
use crate::engine::entry::{CallbackKind, DISPATCHED, RUNNING, State};
use crate::engine::seat::Seated;

impl Shard {
    /// Refuses new timers, and starts no more callbacks. A shutdown calls this, or a driver that has panicked. See
    /// [`Core::close`](crate::engine::core::Core::close).
    pub(crate) fn close(this: &Arc<Self>) {
        this.closed.get_or_init(|| {
            // The count that is left to the handles.
            let kept = Arc::into_raw(this.clone());
            if this.core.close() {
                // SAFETY: we own the count made above, because no handle is left to own it.
                drop(unsafe { Arc::from_raw(kept) });
            }
        });
        this.wake_clock();
    }

    /// Ends the pending timers of a closed shard whose callbacks have this kind: values, which stay in their queues, or
    /// sleeps, which complete.
    pub(crate) fn claim_of(&self, kind: CallbackKind) {
        self.core.claim_of(kind, self.ticks.now_tick(), |state, callback| {
            self.count_claimed(state);
            self.catch_panic(None, true, || if kind == CallbackKind::Waker { callback.run() } else { drop(callback) });
        });
    }

    /// Counts a timer that the shutdown has claimed in this state.
    pub(crate) fn count_claimed(&self, state: State) {
        if state.has(DISPATCHED) {
            self.finish_in_flight();
        }
        match state.kind() {
            CallbackKind::Waker => self.count_completed(),
            // It ends with its run.
            CallbackKind::Periodic if state.has(RUNNING) => self.count_end(|counters| &counters.cancelled),
            _ => self.count_end(|counters| &counters.unfired),
        }
    }

    /// Makes a bounded turn: of a round to the present, or of chores if nothing `is_due`. What expires lies in the
    /// driver, and counts as in flight. Calls no foreign code. `None`: the shard is closed, and its driver is gone.
    pub(crate) fn turn<'a>(&self, seated: Seated<'a>, is_due: bool) -> Option<Seated<'a>> {
        let seated = self.guarded(seated, |driver| {
            driver.turn(&self.core, is_due, || self.ticks.now_tick());
            #[cfg(test)]
            assert!(
                driver.expired.is_empty() || !self.fault.load(std::sync::atomic::Ordering::Relaxed),
                "a test has broken the wheel"
            );
        })?;
        self.begin_in_flight(seated.driver.expired.len());
        Some(seated)
    }

    /// Makes a turn of the shard's driver, unless the shard is closed. Closes it if the turn panics.
    pub(crate) fn guarded<'a>(
        &self,
        mut seated: Seated<'a>,
        turn: impl FnOnce(&mut ShardDriver),
    ) -> Option<Seated<'a>> {
        if self.core.is_closing() {
            return None;
        }
        let Err(payload) = panic::catch_unwind(AssertUnwindSafe(|| turn(&mut seated.driver))) else {
            return Some(seated);
        };
        self.driver_panicked(payload);
        // The shard is closed. So `run` only takes each timer out of its batch, and the shutdown ends it.
        let expired = mem::take(&mut seated.driver.expired);
        self.begin_in_flight(expired.len());
        expired.into_all().for_each(|index| self.run(index, 0, &mut Deliveries::default()));
        None
    }

    /// Closes the shard of a driver that has panicked, completes its sleeps, and reports the panic. Closures stay
    /// pending until the shutdown hands them back.
    fn driver_panicked(&self, payload: Box<dyn Any + Send>) {
        let this = self.this.upgrade().expect("a shard that is driven is alive");
        Self::close(&this);
        this.claim_of(CallbackKind::Value);
        this.claim_of(CallbackKind::Waker);
        let message = format!(
            "corewheel: the driver of a shard has panicked on the thread {:?}, which is a defect of corewheel: {}. The \
             shard is shut down; its pending callbacks do not run, and are handed back by the timer's shutdown",
            thread::current().name().unwrap_or_default(),
            message_of(&*payload).unwrap_or("it did not say why")
        );
        // The drop of the payload may panic, too.
        self.catch_panic(None, true, || drop(payload));
        if this.settings.on_panic.is_none() {
            // Best effort: the process may have no standard error.
            let _ = writeln!(io::stderr(), "{message}");
        }
        this.report_panic(None, true, Box::new(message));
    }

    /// Drops the count of a closed shard that its handles share.
    ///
    /// # Safety
    /// The caller must have released the last handle of the closed shard, and must not use `this` afterwards.
    pub(super) unsafe fn last_handle_released(this: NonNull<Self>) {
        // SAFETY: we own the count that `close` left to the handles, because the caller has released the last of them.
        drop(unsafe { Arc::from_raw(this.as_ptr()) });
    }
}
