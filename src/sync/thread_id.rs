//! Ids of threads, by which an atomic word can say which thread it means.

use std::cell::Cell;

use crate::sync::{AtomicU64, Ordering, thread_static};

/// Returns the id of the calling thread. No other thread of the process ever has the same. Never zero.
pub(crate) fn thread_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_static! {
        static NUMBER: Cell<u64> = const { Cell::new(0) };
    }
    NUMBER.with(|number| {
        if number.get() == 0 {
            // Relaxed: the number orders no other memory.
            number.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        number.get()
    })
}
