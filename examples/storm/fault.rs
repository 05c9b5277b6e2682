//! What has gone wrong so far.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many are told.
const TOLD: usize = 20;

static TEXTS: Mutex<Vec<String>> = Mutex::new(Vec::new());
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Notes a fault. To be called from anywhere.
pub fn note(text: impl FnOnce() -> String) {
    if COUNT.fetch_add(1, Ordering::Relaxed) < TOLD {
        TEXTS.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(text());
    }
}

/// Notes a fault unless both are the same.
pub fn unless_equal(what: &str, found: u64, expected: u64) {
    unless_within(what, found, expected, 0);
}

/// Notes a fault unless what is found is what is expected, or up to `slack` more.
pub fn unless_within(what: &str, found: u64, expected: u64, slack: u64) {
    if !(expected..=expected + slack).contains(&found) {
        let more = if slack > 0 { format!(" to {}", expected + slack) } else { String::new() };
        note(|| format!("{what}: {found} by `stats`, {expected}{more} by the account"));
    }
}

/// How many there are.
pub fn count() -> usize {
    COUNT.load(Ordering::Relaxed)
}

/// Tells the first of them.
pub fn tell() {
    for text in &*TEXTS.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) {
        eprintln!("wrong: {text}");
    }
    if count() > TOLD {
        eprintln!("wrong: .. and {} more", count() - TOLD);
    }
}
