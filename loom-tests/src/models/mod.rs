//! The models.
//!
//! A model sets a [`Fixture`], lets a few threads act in it, and asks at the end whether everything was accounted for: each
//! callback run or dropped once, each entry free again, once. What goes wrong in between (a data race on a callback or
//! a link, a lost wake-up) loom reports by itself. Beside each model stand the mutations that it was seen to fail under;
//! `ci/mutations` makes them again.

mod backlog;
mod cancel;
mod delay_queue;
mod drain;
mod guard;
mod in_flight;
mod loan;
mod periodic;
mod quiescence;
mod rearm_in_place;
mod recycle;
#[cfg(crossbeam_loom)]
mod registry;
mod reset;
mod shutdown;
mod shutdown_inside;
mod shutdown_memory;
mod shutdown_sleep;
mod sleep;
mod sleep_entry;
mod sparse;
mod wake;

use std::sync::atomic::{AtomicUsize as PlainCount, Ordering::Relaxed as Plain};

use crate::fixture::{Fixture, Handle};

/// Explores a model, and sees to it that there was something to explore.
fn explore(model: impl Fn() + Send + Sync + 'static) {
    let executions = std::sync::Arc::new(PlainCount::new(0));
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(2));
    let count = executions.clone();
    builder.check(move || {
        count.fetch_add(1, Plain);
        model();
    });
    let executions = executions.load(Plain);
    println!("{executions} executions at {:?} preemptions", builder.preemption_bound.unwrap_or(0));
    assert!(executions >= 10, "{executions} executions: a model that explores nothing");
}
