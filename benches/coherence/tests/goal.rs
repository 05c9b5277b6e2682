//! The goal of corewheel's design: in the steady state of timeouts no cache line is transferred, with any number of threads.

use std::collections::HashMap;
use std::fs;
use std::process::Command;

/// Transfers per operation, by the name of the timer and then by the number of threads, in the order of the arguments.
fn transfers(workload: &str, threads: &str) -> HashMap<String, Vec<f64>> {
    let counter = Command::new(env!("CARGO_BIN_EXE_coherence"))
        .args(["--workloads", workload, "--threads", threads])
        .output()
        .expect("the counter starts");
    assert!(counter.status.success(), "{}", String::from_utf8_lossy(&counter.stderr));
    let table = String::from_utf8(counter.stdout).expect("text");
    assert_shown(&table);
    let row = |line: &str| {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let total = |cell: &&str| cell.split(" + ").map(|part| part.parse::<f64>().expect("a number")).sum();
        (cells[1].to_owned(), cells[2..].iter().map(total).collect())
    };
    table.lines().skip(2).map(row).collect()
}

/// Says that the page has what is said of corewheel here. Of the others it is not so exact, as it depends on the allocator.
#[track_caller]
fn assert_shown(table: &str) {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scaling.md")).expect("a page");
    let steady =
        |row: &&str| ["| W1: ", "| W4: "].iter().any(|name| row.starts_with(name)) && row.contains("corewheel");
    for row in table.lines().filter(steady) {
        assert!(page.contains(row), "docs/scaling.md does not say: {row}");
    }
}

/// Says that corewheel transfers no line, with a shard for each thread and with two shards for all of them.
#[track_caller]
fn assert_none(transfers: &HashMap<String, Vec<f64>>) {
    for timer in ["corewheel, a shard a thread", "corewheel, 2 shards"] {
        assert!(transfers[timer].iter().all(|&transfers| transfers == 0.0), "{timer}: {:?}", transfers[timer]);
    }
}

/// Two threads that take one lock transfer its line each time that the other had it last: twice a pair at most, and the data
/// with it.
#[test]
fn a_pair_in_the_steady_state_transfers_no_line() {
    let transfers = transfers("w1", "1,2,8,64");
    assert_none(&transfers);
    for timer in ["heap, one lock", "wheel, one lock"] {
        let transfers = &transfers[timer];
        assert_eq!(transfers[0], 0.0, "{timer}: one thread has all lines to itself");
        assert!(transfers[1] > 1.0 && transfers[2] > 2.0 && transfers[3] > 2.0, "{timer}: {transfers:?}");
    }
}

#[test]
fn a_reset_to_a_later_deadline_transfers_no_line() {
    let transfers = transfers("w4", "1,2,8,64");
    assert_none(&transfers);
    assert!(transfers["heap, one lock"][3] > 1.0);
}

/// The lines of its entry, and of batches of entries on their way back.
#[test]
fn a_timer_that_another_thread_cancels_transfers_its_line() {
    let transfers = transfers("handed", "8");
    for (timer, transfers) in transfers {
        assert!(transfers[0] > 1.0, "{timer}: {transfers:?}");
    }
}
