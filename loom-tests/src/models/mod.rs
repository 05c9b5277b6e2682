//! The models.
//!
//! A model creates a [`Fixture`], uses it from a few threads, and asserts at the end that nothing was lost: each
//! callback ran or was dropped once, and each entry is free once. loom itself reports what goes wrong in between, such
//! as a data race on a callback or a link, or a lost wake-up. `loom-tests/mutations/list` has the mutations of the source
//! under which each model must fail, with the claims that they break.

mod backlog;
mod cancel;
mod census;
mod delay_queue;
mod drain;
mod due_when_set;
mod in_flight;
mod periodic;
mod program;
mod quiescence;
mod rearm_in_place;
mod recycle;
#[cfg(crossbeam_loom)]
mod registry;
mod reset;
mod roles;
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

/// Explores a model, and asserts that it has more than a few executions.
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
