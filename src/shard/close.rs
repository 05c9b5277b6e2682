//! Shuts a shard down, and ends the timers that are pending in it.

use std::any::Any;
use std::io::{self, Write};
use std::ptr::NonNull;
use std::sync::Arc;
use std::thread;

use super::binding::Shard;
use crate::engine::core::{Found, Running};
use crate::engine::entry::{Callback, Role};
use crate::engine::run::catch_panic;

impl Shard {
    /// Refuses new timers, and starts no callback any more; see [`Core::close`]. Returns how many closures may be claimed.
    pub(crate) fn close(this: &Arc<Self>) -> usize {
        let closing = this.closing.get_or_init(|| {
            // The count that the handles share.
            let pinned = Arc::into_raw(this.clone());
            let closing = this.core.close();
            if closing.unpinned {
                // SAFETY: the count made above; no lease has a part in it.
                drop(unsafe { Arc::from_raw(pinned) });
            }
            closing
        });
        closing.closures + closing.running
    }

    /// Completes the sleeps of a closed shard.
    pub(crate) fn complete_sleeps(&self) {
        if self.closing.get().is_some_and(|closing| closing.wakers > 0) {
            self.core.claim_wakers(self.ticks.now_tick(), |found| self.found(found, &mut |_, _| ()));
        }
    }

    /// Takes the pending timers of a closed shard, with their ticks, and returns those that are running.
    pub(crate) fn claim(&self, unfired: &mut impl FnMut(u64, Callback)) -> Running<'_> {
        self.core.claim_closures(self.ticks.now_tick(), |found| self.found(found, unfired))
    }

    /// Takes those that were running, when they have run; see [`Core::claim_running`].
    pub(crate) fn claim_running(&self, running: Running<'_>, wait: bool, unfired: &mut impl FnMut(u64, Callback)) {
        self.core.claim_running(running, wait, self.ticks.now_tick(), |found| self.found(found, unfired));
    }

    pub(super) fn found(&self, found: Found, unfired: &mut impl FnMut(u64, Callback)) {
        match found {
            Found::Unfired { deadline, callback, dispatched } => {
                if dispatched {
                    self.finish_in_flight();
                }
                if callback.role() == Role::Waker {
                    self.complete();
                    catch_panic(&self, || callback.run(deadline));
                    return;
                }
                self.end(|counters| &counters.unfired);
                if callback.role() == Role::Value {
                    // The value stays in its queue.
                    self.drop_unfired(callback);
                } else {
                    unfired(deadline, callback);
                }
            }
            Found::Ended => self.end(|counters| &counters.cancelled),
        }
    }

    /// The driver has panicked. The shard is closed: it refuses new timers, and its sleeps are over. Closures stay pending
    /// for the shutdown, which hands them back.
    pub(super) fn driver_panicked(this: &Arc<Self>, payload: Box<dyn Any + Send>) {
        Self::close(this);
        this.complete_sleeps();
        let thread = thread::current();
        let message = format!(
            "corewheel: the thread {:?} of a shard has panicked, which is a defect of corewheel: {}. The shard is shut \
             down; its pending callbacks do not run, and are handed back by the timer's shutdown",
            thread.name().unwrap_or_default(),
            text_of(&*payload)
        );
        // Its drop may panic as well.
        catch_panic(&&**this, || drop(payload));
        if this.on_panic.is_none() {
            // Best effort: there may be no such stream.
            let _ = writeln!(io::stderr(), "{message}");
        }
        this.report_panic(Box::new(message));
    }

    /// Drops what keeps a closed shard for its leases.
    ///
    /// # Safety
    /// The caller has released the last lease. `this` is not used any more.
    pub(super) unsafe fn last_handle_released(this: NonNull<Self>) {
        // SAFETY: `close` left a count of the shard to its leases; and by this function's contract.
        drop(unsafe { Arc::from_raw(this.as_ptr()) });
    }

    /// Whether the shard may be waiting for the calling thread, its driver or inside one of its callbacks.
    pub(crate) fn is_on_this_thread(&self) -> bool {
        self.core.is_on_this_thread()
    }

    /// Whether the calling thread is inside a callback of this shard.
    pub(crate) fn is_inside_callback(&self) -> bool {
        self.core.is_inside_callback()
    }
}

/// What a panic said, if it said something.
fn text_of(payload: &(dyn Any + Send)) -> &str {
    match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (None, Some(text)) => text,
        (None, None) => "it did not say why",
    }
}
