//! Model 10: a thread's record that is entered and retired, against those who read the roll.
//!
//! Fails if a reader does not hold the epoch (mutation `roll-unguarded`), if a record is freed at once (`roll-freed-early`),
//! and if a page is not published (`roll-relaxed`). Explored only with `--cfg crossbeam_loom`, as crossbeam-epoch would not
//! be modelled without.

use loom::sync::Arc;
use loom::thread::{self, JoinHandle};

use super::explore;
use crate::roll::Roll;
use crate::stats::Record;

/// Enters a record, and counts once.
fn join(roll: &Roll) -> &Record {
    // SAFETY: it has joined, and leaves after its last use.
    let record = unsafe { &*roll.join() };
    record.count();
    record
}

/// Starts a thread that takes a record off.
fn leave_elsewhere(roll: &Arc<Roll>, record: *const Record) -> JoinHandle<()> {
    let (roll, record) = (roll.clone(), record as usize);
    // SAFETY: it is on the roll, and nobody counts on it any more.
    thread::spawn(move || unsafe { roll.leave(record as *const Record) })
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
            thread::spawn(move || {
                let record = join(&roll);
                // SAFETY: it is on the roll, and nobody counts on it any more.
                unsafe { roll.leave(record) };
            })
        };
        assert!(roll.read().scheduled <= 1);
        visitor.join().unwrap();
        assert_eq!(roll.read().scheduled, 1);
    });
}
