//! `Measuring`: the [`RunHooks`] of a shard with an [`on_slow`](super::slow) hook.
//!
//! A worker measures from just before it calls the callback until the callback has returned or panicked. It uses the
//! real clock, because a virtual clock stands still meanwhile. With a hook, [`Measuring`] is the [`RunHooks`] of each
//! run; without one the shard itself is, and no clock is read.
//!
//! The worker calls the hook before the transition that ends the run, and within the run's frame of the
//! [call stack](crate::engine::call_stack). So a thread that waits for the run also waits for the hook. The hook may
//! call whatever a callback may call.

use std::any::Any;
use std::time::{Duration, Instant};

use super::shard::Shard;
use super::slow::SlowMonitor;
use crate::engine::entry::Role;
use crate::engine::run::{RunHooks, catch_panic};

/// The hooks of a shard that measures its runs.
pub(super) struct Measuring<'a> {
    pub(super) shard: &'a Shard,
    pub(super) monitor: &'a SlowMonitor,
}

/// The measurement of one run.
pub(super) struct MeasuredRun {
    late: Duration,
    began: Instant,
    took: Duration,
}

impl RunHooks for Measuring<'_> {
    /// `None` for a waker and for a value of a queue, which are not reported.
    type Run = Option<MeasuredRun>;

    fn started(&self, deadline: u64, role: Role) -> Self::Run {
        let late = self.shard.count_start(deadline, role);
        matches!(role, Role::Once | Role::Periodic).then(|| MeasuredRun {
            late,
            took: Duration::ZERO,
            began: Instant::now(),
        })
    }

    fn returned(&self, run: &mut Self::Run) {
        if let Some(run) = run {
            run.took = run.began.elapsed();
        }
    }

    fn ended(&self, run: Self::Run) {
        // If the callback has forked, the child comes here, too. The run belongs to the parent.
        if let Some(run) = run
            && !self.shard.is_inherited()
        {
            catch_panic(self, || self.monitor.report(run.took, run.late));
        }
    }

    fn now(&self) -> u64 {
        self.shard.now()
    }

    fn enqueued(&self, deadline: u64) {
        self.shard.enqueued(deadline);
    }

    fn completed(&self) {
        self.shard.completed();
    }

    fn cancelled(&self) {
        RunHooks::cancelled(&self.shard);
    }

    fn panicked(&self, payload: Box<dyn Any + Send>) {
        self.shard.panicked(payload);
    }

    fn recycle(&self, index: u32) {
        self.shard.recycle(index);
    }
}
