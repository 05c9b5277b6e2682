//! The cost of reading the present, and of a deadline.
//!
//! ```text
//! cargo bench -p benches --bench clock
//! ```

#[allow(dead_code, unused_imports, reason = "a private module of the crate")]
#[path = "../src/clock/mod.rs"]
mod clock;

#[allow(dead_code, unused_imports, reason = "as above")]
#[path = "../src/sync/mod.rs"]
mod sync;

use std::time::Duration;

use clock::Ticks;
use criterion::{Criterion, criterion_group, criterion_main};

fn present(criterion: &mut Criterion) {
    let ticks = Ticks::new(None, Duration::from_millis(1));
    let delay = Duration::from_secs(30);
    let deadline = ticks.now() + Duration::from_secs(3600);
    criterion.bench_function("Ticks::now", |bencher| bencher.iter(|| ticks.now()));
    criterion.bench_function("Ticks::now_tick", |bencher| bencher.iter(|| ticks.now_tick()));
    criterion.bench_function("Ticks::after", |bencher| bencher.iter(|| ticks.after(delay)));
    criterion.bench_function("Ticks::at", |bencher| bencher.iter(|| ticks.at(deadline)));
    criterion.bench_function("Ticks::lateness", |bencher| bencher.iter(|| ticks.lateness(1)));
}

criterion_group!(benches, present);
criterion_main!(benches);
