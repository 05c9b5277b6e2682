//! Counts the cache-line transfers of each operation, of corewheel and of two other timers. Prints a table and draws a
//! plot. `ci/all` uses it: [the tests](../tests/goal.rs) fail if an operation transfers more than it should.
//!
//! `cargo run --release -p coherence` prints all figures. [scaling.md](../../../docs/internals/scaling.md) explains what is
//! counted.
//!
//! The modules up to `wheel` are the source files of the crate, compiled against a `std` that counts. This package
//! replaces four modules: `sync`, for its cell; `clock`, because time is virtual; `executor`, of which only the part that
//! runs callbacks on the thread that drives is present; and `drive`, without the program's own loop.

// The unit tests of these files run in the crate itself.
#![cfg(not(test))]

extern crate alloc;
extern crate coherence as std;

#[allow(dead_code, unused_imports)]
mod clock;
#[allow(dead_code, unexpected_cfgs, unused_imports)]
mod drive;
#[allow(dead_code, unexpected_cfgs, unused_imports)]
#[path = "../../../src/engine/mod.rs"]
mod engine;
#[allow(dead_code, unexpected_cfgs)]
#[path = "../../../src/error/mod.rs"]
mod error;
#[allow(dead_code, missing_docs, unused_imports)]
mod executor;
#[allow(dead_code, unexpected_cfgs, unused_imports)]
#[path = "../../../src/future.rs"]
mod future;
#[allow(dead_code, unexpected_cfgs)]
#[path = "../../../src/handle.rs"]
mod handle;
#[allow(dead_code, unexpected_cfgs, unused_imports)]
#[path = "../../../src/shard/mod.rs"]
mod shard;
#[allow(dead_code, unexpected_cfgs)]
#[path = "../../../src/stats/mod.rs"]
mod stats;
#[allow(dead_code, unused_imports)]
mod sync;
#[allow(dead_code, unexpected_cfgs, unused_imports)]
#[path = "../../../src/system/mod.rs"]
mod system;
#[allow(dead_code, unexpected_cfgs, unreachable_code, unused_imports)]
#[path = "../../../src/timer/mod.rs"]
mod timer;
#[allow(dead_code, unexpected_cfgs, unused_imports)]
#[path = "../../../src/wheel/mod.rs"]
mod wheel;

mod child;
mod contender;
mod measured;
mod plot;
mod report;
mod workload;

use std::error::Error;
use std::path::PathBuf;

use clap::Parser;

pub use clock::ManualClock;
pub use error::{BuildError, ScheduleError, ScheduleErrorKind};
pub use executor::{Execute, Executor};
pub use future::{Elapsed, Sleep, Timeout};
pub use handle::{CancelOnDrop, TimerHandle};
pub use shard::{Panicked, SlowCallback};
pub use stats::{Lateness, ShardStats, Stats};
pub use timer::{Builder, Interval, MissedTickBehavior, Timer, TimerKind, Unfired, UnfiredTimer, WeakTimer};
pub use wheel::{Key, Wheel};

use child::Running;
use coherence::schedule;
use contender::Contender;
use measured::Measured;
use workload::{Order, Workload};

/// Counts cache-line transfers per operation.
#[derive(Parser)]
struct Args {
    /// Numbers of threads
    #[arg(long, value_delimiter = ',', default_value = "1,2,8,64")]
    threads: Vec<usize>,
    /// The workloads: see `docs/internals/scaling.md`
    #[arg(long, value_delimiter = ',', default_value = "w1,w1-slow,w2,w4,handed,mixed")]
    workloads: Vec<Workload>,
    /// The timers
    #[arg(long, value_delimiter = ',', default_value = "corewheel,corewheel-2,sleep,heap,wheel")]
    contenders: Vec<Contender>,
    /// Seed of the order in which the threads take turns
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Mean number of accesses in a turn
    #[arg(long, default_value_t = schedule::MEAN_TURN)]
    turn: u64,
    /// Number of source lines to print for each figure: those that cause most transfers
    #[arg(long, default_value_t = 0)]
    locations: usize,
    /// Make one count, and print it for the parent process
    #[arg(long, hide = true)]
    child: bool,
    /// Directory `docs`, where the table and the plot are replaced
    #[arg(long)]
    docs: Option<PathBuf>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    let order = Order { seed: args.seed, mean_turn: args.turn };
    if let (true, [workload], [contender], [threads]) =
        (args.child, &*args.workloads, &*args.contenders, &*args.threads)
    {
        contender.run(*workload, *threads, order).iter().for_each(Measured::print);
        return Ok(());
    }
    let mut rows = Vec::new();
    for &workload in &args.workloads {
        for &contender in &args.contenders {
            let start = |&threads: &usize| Running::start(contender, workload, threads, order);
            // All run in parallel: they are few, and time is virtual.
            let running = args.threads.iter().map(start).collect::<Result<Vec<_>, _>>()?;
            let measured = running.into_iter().map(Running::end).collect::<Result<_, _>>()?;
            rows.extend(report::rows(contender, measured));
        }
    }
    let table = report::table(&args.threads, &rows);
    print!("{table}");
    report::print_locations(&args.threads, &rows, args.locations);
    if let Some(docs) = &args.docs {
        report::write(&table, &docs.join("internals/scaling.md"))?;
        plot::draw(&args.threads, &rows, &docs.join("benchmarks/transfers.svg"))?;
    }
    Ok(())
}
