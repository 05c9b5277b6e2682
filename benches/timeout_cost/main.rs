//! The cost of a timeout for each request of a server: without, with tokio's, and with corewheel's.
//!
//! ```text
//! cargo bench -p benches --bench timeout_cost                some minutes
//! cargo bench -p benches --bench timeout_cost -- --quick     seconds
//! ```
//!
//! Server and clients run in this process, in a runtime that is new for each turn. The contenders take turns, and make
//! the same number of requests in each. At the start, each must end a request that is not answered.
//!
//! | file        | contents                                                    |
//! |-------------|-------------------------------------------------------------|
//! | `contender` | the ways to limit the time of a request                     |
//! | `load`      | what a load has to provide                                  |
//! | `rpc`       | an in-memory RPC                                            |
//! | `echo`      | a TCP echo                                                  |
//! | `http`      | an HTTP server                                              |
//! | `loopback`  | the connections of the two                                  |
//! | `measure`   | one turn of a contender, and its check                      |
//! | `report`    | the table                                                   |

mod contender;
mod echo;
mod http;
mod load;
mod loopback;
mod measure;
mod report;
mod rpc;
#[path = "../harness/spread.rs"]
mod spread;
#[allow(dead_code, reason = "`compare` asks the system for more")]
#[path = "../compare/system.rs"]
mod system;

use std::time::Duration;

use clap::Parser;

use contender::{Corewheel, CorewheelReset, NoTimeout, Tokio, TokioReset};
use echo::Echo;
use http::Http;
use load::Load;
use measure::{Case, Turn};
use rpc::Rpc;

/// Measures what a timeout for each request costs a server.
#[derive(Parser)]
#[command(name = "cargo bench -p benches --bench timeout_cost --")]
struct Args {
    /// Numbers of tokio workers
    #[arg(long, value_delimiter = ',', default_value = "2,8", value_parser = clap::value_parser!(u16).range(1..))]
    workers: Vec<u16>,
    /// Number of turns of each contender [default: 9, or 1 if quick]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: Option<u16>,
    /// Seconds that a turn without timeouts takes about [default: 1, or a moment if quick]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    seconds: Option<u16>,
    /// Measure shortly, as a test
    #[arg(long)]
    quick: bool,
    /// `cargo bench` passes this, `cargo test` does not
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() {
    let args = Args::parse();
    let quick = args.quick || !args.bench;
    let (rounds, length) = if quick { (1, Duration::from_millis(20)) } else { (9, Duration::from_secs(1)) };
    let rounds = args.rounds.unwrap_or(rounds);
    let length = args.seconds.map_or(length, |seconds| Duration::from_secs(seconds.into()));
    // A hyper service is shared by its requests, so there is no sleep to reset.
    let loads = [with_resets::<Rpc>(), with_resets::<Echo>(), timeouts::<Http>()];
    // The first contender has no timeout.
    loads.iter().flat_map(|cases| &cases[1..]).for_each(|case| (case.check)());
    report::head();
    for cases in &loads {
        for &workers in &args.workers {
            let workers = workers.into();
            let steps = steps(&cases[0], workers, length);
            let mut turns: Vec<Vec<Turn>> = cases.iter().map(|_| Vec::new()).collect();
            for round in 0..rounds.into() {
                // Each round begins with another contender.
                for turn in 0..cases.len() {
                    let case = (round + turn) % cases.len();
                    turns[case].push((cases[case].turn)(workers, steps));
                }
            }
            report::rows(cases, workers, &turns);
        }
    }
}

/// Returns the contenders in the order of the table.
fn timeouts<L: Load>() -> Vec<Case> {
    vec![Case::new::<L, NoTimeout>(), Case::new::<L, Tokio>(), Case::new::<L, Corewheel>()]
}

fn with_resets<L: Load>() -> Vec<Case> {
    let mut cases = timeouts::<L>();
    cases.extend([Case::new::<L, TokioReset>(), Case::new::<L, CorewheelReset>()]);
    cases
}

/// Returns the number of steps of a client that take about as long as `length`.
fn steps(case: &Case, workers: usize, length: Duration) -> u64 {
    let mut steps = 1;
    loop {
        let wall = (case.turn)(workers, steps).wall;
        if 4 * wall >= length {
            return (steps as f64 * length.as_secs_f64() / wall.as_secs_f64()).ceil() as u64;
        }
        steps *= 2;
    }
}
