//! The faults found so far.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum number of faults that are printed.
const PRINTED: usize = 20;

static TEXTS: Mutex<Vec<String>> = Mutex::new(Vec::new());
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Notes a fault. Any thread may call this.
pub fn note(text: impl FnOnce() -> String) {
    if COUNT.fetch_add(1, Ordering::Relaxed) < PRINTED {
        TEXTS.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(text());
    }
}

/// Notes a fault unless `found` is `expected`.
pub fn unless_equal(what: &str, found: u64, expected: u64) {
    unless_within(what, found, expected, 0);
}

/// Notes a fault unless `found` is `expected`, or up to `slack` more.
pub fn unless_within(what: &str, found: u64, expected: u64, slack: u64) {
    if !(expected..=expected + slack).contains(&found) {
        let more = if slack > 0 { format!(" to {}", expected + slack) } else { String::new() };
        note(|| format!("{what}: {found} by `stats`, {expected}{more} by the account"));
    }
}

/// Returns the number of faults.
pub fn count() -> usize {
    COUNT.load(Ordering::Relaxed)
}

/// Prints the first faults.
pub fn print() {
    for text in &*TEXTS.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) {
        eprintln!("wrong: {text}");
    }
    if count() > PRINTED {
        eprintln!("wrong: .. and {} more", count() - PRINTED);
    }
}
