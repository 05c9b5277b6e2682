//! Schedule, cancel, re-arm and fire, beside the textbook timer. `compare` has more contenders and more to measure.
//!
//! ```text
//! cargo bench -p benches --bench timer                      all of it, some minutes
//! cargo bench -p benches --bench timer -- --quick           within a minute
//! cargo bench -p benches --bench timer -- 'rearm.*heap'     what matches
//! ```
//!
//! A figure is wall time x min(threads, cores) / operations: what one operation costs a core, the same at two threads
//! as at one where they do not get in each other's way. Firing is the time from the moment at which all the timers are
//! due until the last has run.

mod contender;
mod harness;
mod workload;

use std::time::Duration;
use std::{panic, process};

use criterion::{Criterion, SamplingMode, Throughput};

use contender::{Contender, check};
use workload::{Operation, Rig};

/// Who is measured here.
const MEASURED: [&str; 2] = ["corewheel", "heap"];
const PENDING: [usize; 2] = [1_000, 1_000_000];
const THREADS: [(usize, &str); 2] = [(1, "1 thread"), (2, "2 threads")];
const OPERATIONS: [(&str, Operation); 4] = [
    ("schedule", Operation::Schedule),
    ("cancel", Operation::Cancel),
    ("schedule + cancel", Operation::Pair),
    ("re-arm", Operation::Rearm),
];

/// A contender on the list.
struct Entrant {
    name: &'static str,
    check: fn(),
    /// Starts it with so many standing timers.
    rig: fn(usize) -> Box<dyn Rig>,
}

impl contender::Entrant for Entrant {
    fn of<C: Contender>() -> Self {
        Self { name: C::NAME, check: check::check::<C>, rig: workload::rig::<C> }
    }
}

fn main() {
    fail_fast();
    let mut entrants: Vec<Entrant> = contender::all();
    entrants.retain(|entrant| MEASURED.contains(&entrant.name));
    entrants.iter().for_each(|entrant| (entrant.check)());
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args();
    PENDING.into_iter().for_each(|pending| operations(&mut criterion, &entrants, pending));
    PENDING.into_iter().for_each(|due| firing(&mut criterion, &entrants, due));
    criterion.final_summary();
}

/// Lets a panic in any thread end the process: an operation that did not happen is no result, and the other threads
/// would wait for it.
fn fail_fast() {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        hook(panic);
        process::exit(101);
    }));
}

fn operations(criterion: &mut Criterion, entrants: &[Entrant], pending: usize) {
    // A million timers take a while: they stand for all operations, and are scheduled when the first one is measured.
    let mut rigs: Vec<_> = entrants.iter().map(|entrant| (entrant, None)).collect();
    for (name, operation) in OPERATIONS {
        for (threads, on) in THREADS {
            let mut group = criterion.benchmark_group(format!("{name}, {pending} pending, {on}"));
            for (entrant, rig) in &mut rigs {
                group.bench_function(entrant.name, |bencher| {
                    let rig = rig.get_or_insert_with(|| (entrant.rig)(pending));
                    bencher.iter_custom(|times| rig.time(operation, threads, times));
                });
            }
        }
    }
}

fn firing(criterion: &mut Criterion, entrants: &[Entrant], due: usize) {
    for (threads, on) in THREADS {
        let mut group = criterion.benchmark_group(format!("fire, {due} due, from {on}"));
        group.sampling_mode(SamplingMode::Flat).sample_size(10).throughput(Throughput::Elements(due as u64));
        for entrant in entrants {
            group.bench_function(entrant.name, |bencher| {
                let mut rig = (entrant.rig)(0);
                bencher.iter_custom(|times| (0..times).map(|_| rig.fire(due, threads)).sum());
            });
        }
    }
}
