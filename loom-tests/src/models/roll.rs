//! Model 10: a thread's record that is entered and retired, against those who read the roll.
//!
//! Fails if a reader does not hold the epoch (mutation `roll-unguarded`), if a page is freed at once (`roll-freed-early`),
//! and if a page is not published (`roll-relaxed`). Explored only with `--cfg crossbeam_loom`, as crossbeam-epoch would not
//! be modelled without.

use loom::sync::Arc;
use loom::thread::{self, JoinHandle};

use super::explore;
use crate::roll::Roll;
use crate::stats::Record;

/// Enters a record, and counts once.
fn join(roll: &Roll) -> Arc<Record> {
    let record = roll.join();
    record.count();
    record
}

/// Starts a thread that takes a record off.
fn leave_elsewhere(roll: &Arc<Roll>, record: Arc<Record>) -> JoinHandle<()> {
    let roll = roll.clone();
    thread::spawn(move || roll.leave(&record))
}

/// A thread that leaves takes no count with it, and leaves none twice.
#[test]
fn leave_against_a_reader() {
    explore(|| {
        let roll = Arc::new(Roll::new());
        let leaver = leave_elsewhere(&roll, join(&roll));
        assert_eq!(roll.read().scheduled, 1);
        leaver.join().unwrap();
        assert_eq!(roll.read().scheduled, 1);
    });
}

/// Of two pages written at once none is lost.
#[test]
fn join_against_leave() {
    explore(|| {
        let roll = Arc::new(Roll::new());
        let leaver = leave_elsewhere(&roll, join(&roll));
        join(&roll);
        leaver.join().unwrap();
        assert_eq!(roll.read().scheduled, 2);
    });
}

/// Who reads beside a thread that comes and goes sees its count or not.
#[test]
fn a_visit_against_a_reader() {
    explore(|| {
        let roll = Arc::new(Roll::new());
        let visitor = {
            let roll = roll.clone();
            thread::spawn(move || roll.leave(&join(&roll)))
        };
        assert!(roll.read().scheduled <= 1);
        visitor.join().unwrap();
        assert_eq!(roll.read().scheduled, 1);
    });
}
