//! Schedule, cancel, reset and fire, in comparison with the textbook timer. `compare` has more contenders and
//! workloads.
//!
//! ```text
//! cargo bench -p benches --bench timer                      everything, some minutes
//! cargo bench -p benches --bench timer -- --quick           within a minute
//! cargo bench -p benches --bench timer -- 're-arm.*heap'    what matches the pattern
//! ```
//!
//! A figure is wall time x min(threads, cores) / operations: the cost of one operation in time of a core. Without
//! contention, it is the same for two threads as for one. Firing is the time from the common deadline of all timers
//! until the last callback has run.

mod contender;
mod harness;
mod workload;

use std::time::Duration;
use std::{panic, process};

use criterion::{Criterion, SamplingMode, Throughput};

use contender::{Contender, FromContender, check};
use workload::{Operation, Rig};

/// The contenders that are measured here.
const MEASURED: [&str; 2] = ["corewheel", "heap"];
const PENDING: [usize; 2] = [1_000, 1_000_000];
const THREADS: [(usize, &str); 2] = [(1, "1 thread"), (2, "2 threads")];
const OPERATIONS: [(&str, Operation); 4] = [
    ("schedule", Operation::Schedule),
    ("cancel", Operation::Cancel),
    ("schedule + cancel", Operation::Pair),
    ("re-arm", Operation::Rearm),
];

/// A contender in the list.
struct ListedContender {
    name: &'static str,
    check: fn(),
    /// Starts the contender with a number of standing timers.
    rig: fn(usize) -> Box<dyn Rig>,
}

impl FromContender for ListedContender {
    fn from_contender<C: Contender>() -> Self {
        Self { name: C::NAME, check: check::check::<C>, rig: workload::rig::<C> }
    }
}

fn main() {
    fail_fast();
    let mut contenders: Vec<ListedContender> = contender::all();
    contenders.retain(|contender| MEASURED.contains(&contender.name));
    contenders.iter().for_each(|contender| (contender.check)());
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args();
    PENDING.into_iter().for_each(|pending| operations(&mut criterion, &contenders, pending));
    PENDING.into_iter().for_each(|due| firing(&mut criterion, &contenders, due));
    criterion.final_summary();
}

/// Makes a panic in any thread end the process, because the other threads would wait for that thread.
fn fail_fast() {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        hook(panic);
        process::exit(101);
    }));
}

fn operations(criterion: &mut Criterion, contenders: &[ListedContender], pending: usize) {
    // Scheduling a million timers takes a while. So all operations share them, and the first one schedules them.
    let mut rigs: Vec<_> = contenders.iter().map(|contender| (contender, None)).collect();
    for (name, operation) in OPERATIONS {
        for (threads, on) in THREADS {
            let mut group = criterion.benchmark_group(format!("{name}, {pending} pending, {on}"));
            for (contender, rig) in &mut rigs {
                group.bench_function(contender.name, |bencher| {
                    let rig = rig.get_or_insert_with(|| (contender.rig)(pending));
                    bencher.iter_custom(|times| rig.time(operation, threads, times));
                });
            }
        }
    }
}

fn firing(criterion: &mut Criterion, contenders: &[ListedContender], due: usize) {
    for (threads, on) in THREADS {
        let mut group = criterion.benchmark_group(format!("fire, {due} due, from {on}"));
        group.sampling_mode(SamplingMode::Flat).sample_size(10).throughput(Throughput::Elements(due as u64));
        for contender in contenders {
            group.bench_function(contender.name, |bencher| {
                let mut rig = (contender.rig)(0);
                bencher.iter_custom(|times| (0..times).map(|_| rig.fire(due, threads)).sum());
            });
        }
    }
}
