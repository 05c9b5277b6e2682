//! Locks that a panic does not poison: no lock is held while foreign code runs, so what it guards is whole.

use std::sync::{LockResult, PoisonError};

use crate::sync::{Mutex, MutexGuard};

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    unpoisoned(mutex.lock())
}

/// Returns what a lock guards, or a wait on its condition has returned, whether or not a thread has panicked meanwhile.
pub(crate) fn unpoisoned<G>(result: LockResult<G>) -> G {
    result.unwrap_or_else(PoisonError::into_inner)
}
