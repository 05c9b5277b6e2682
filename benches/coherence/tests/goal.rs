//! The goal of corewheel's design: timeouts in the steady state transfer no cache line, with any number of threads.

use std::collections::HashMap;
use std::fs;
use std::process::Command;

const COREWHEEL: &str = "corewheel,corewheel-2,sleep";
const OTHERS: &str = "heap,wheel";

/// Returns the transfers per operation by the name of the timer, one for each number of threads in the argument's
/// order.
fn transfers(workload: &str, contenders: &str, threads: &str) -> HashMap<String, Vec<f64>> {
    let counter = Command::new(env!("CARGO_BIN_EXE_coherence"))
        .args(["--workloads", workload, "--contenders", contenders, "--threads", threads])
        .output()
        .expect("the counter starts");
    assert!(counter.status.success(), "{}", String::from_utf8_lossy(&counter.stderr));
    let table = String::from_utf8(counter.stdout).expect("text");
    let row = |line: &str| {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let total = |cell: &&str| cell.split(" + ").map(|part| part.parse::<f64>().expect("a number")).sum();
        (cells[1].to_owned(), cells[2..].iter().map(total).collect())
    };
    let rows = table.lines().skip(2);
    if contenders == COREWHEEL {
        rows.clone().for_each(assert_shown);
    }
    rows.map(row).collect()
}

/// Asserts that the page has this row.
#[track_caller]
fn assert_shown(row: &str) {
    let page =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/internals/scaling.md")).expect("a page");
    assert!(page.contains(row), "docs/internals/scaling.md does not have: {row}");
}

/// Asserts that corewheel transfers no line: with a shard for each thread, with two shards, and with futures.
#[track_caller]
fn assert_none(workload: &str) {
    for (timer, transfers) in transfers(workload, COREWHEEL, "1,2,8,64") {
        assert_eq!(transfers, [0.0; 4], "{timer}");
    }
}

/// Promise: any thread, no lock.
#[test]
fn a_pair_in_the_steady_state_transfers_no_line() {
    assert_none("w1");
}

#[test]
fn a_reset_to_a_later_deadline_transfers_no_line() {
    assert_none("w4");
}

/// Shows that the counter can count transfers, so the zeros of the other tests mean something.
#[test]
fn a_pair_under_one_lock_transfers_the_lock_and_what_it_guards() {
    for (timer, transfers) in transfers("w1", OTHERS, "1,2,8") {
        assert_eq!(transfers[0], 0.0, "{timer}: one thread has all lines to itself");
        assert!(transfers[1] > 1.0 && transfers[2] > 2.0, "{timer}: {transfers:?}");
    }
}

/// Shows the same for corewheel: a cancel by another thread transfers the entry's line.
#[test]
fn a_timer_that_another_thread_cancels_transfers_its_line() {
    let (timer, threads) = ("corewheel", "2,8");
    let transfers = transfers("handed", timer, threads);
    assert!(transfers.values().flatten().all(|&transfers| transfers > 1.0), "{transfers:?}");
}
