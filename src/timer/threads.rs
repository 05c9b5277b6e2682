//! `Threads`: the threads of a service, and how they end.

use std::sync::{Arc, mpsc};
use std::time::Instant;

use crate::drive::{OwnThreadHandle, ShardSet};
use crate::engine::call_stack;
use crate::executor::{self, Pool};

/// The threads of a service. None are left once a shutdown has taken them.
#[derive(Default)]
pub(super) struct Threads {
    pub(super) own: Vec<OwnThreadHandle>,
    /// What these threads drive, and their executor.
    pub(super) shard_set: Option<Arc<ShardSet>>,
    pub(super) pool: Option<Arc<Pool>>,
}

impl Threads {
    /// Ends the threads; with `wait`, returns when they have ended, or at the instant `until`. Then what callbacks
    /// have left to rayon and to thread-locals may run longer, and so may the drop of a custom executor.
    pub(super) fn end(mut self, until: Option<Instant>, wait: bool) {
        let Some(until) = until else { return self.join(wait) };
        // Inside a callback, no thread that is waited for drops the executor: see the drop of `ShardSet`.
        let _shard_set = self.shard_set.take_if(|_| call_stack::inside_any());
        // The standard library cannot join with a timeout, so a thread joins. If it cannot be started, its closure is
        // dropped here. The threads then end by themselves, because the pool is closed already.
        let (sender, ended) = mpsc::channel();
        let join = move || {
            self.join(wait);
            // An error: the shutdown no longer waits.
            let _ = sender.send(());
        };
        if let (Ok(joiner), true) = (executor::spawn("corewheel-shutdown".to_owned(), join), wait) {
            let left = until.saturating_duration_since(Instant::now());
            if ended.recv_timeout(left).is_ok() {
                executor::join(joiner);
            }
        }
    }

    /// Ends the threads; with `wait`, returns when they have ended. May drop a custom executor.
    fn join(self, wait: bool) {
        if wait {
            self.own.into_iter().for_each(OwnThreadHandle::join);
            if let Some(pool) = self.pool {
                pool.stop();
            }
        }
    }
}
