//! Replaces the futex of Linux, which the standard library's locks use. The kernel's own accesses to the word are not
//! recorded.

use std::sync::atomic::Ordering;

use super::atomic::AtomicU32;
use crate::schedule;
use crate::time::Duration;

/// Waits for a [`wake`], at most for `timeout`. Returns at once if the word does not have this value.
pub(crate) fn wait(word: &AtomicU32, value: u32, timeout: Option<Duration>) {
    let nanos = timeout.map(|timeout| u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
    let until = nanos.map(|nanos| schedule::now().saturating_add(nanos));
    schedule::wait(word.address(), until, || word.unrecorded().load(Ordering::SeqCst) == value);
}

pub(crate) fn wake(word: &AtomicU32, all: bool) {
    schedule::wake(word.address(), all);
}
