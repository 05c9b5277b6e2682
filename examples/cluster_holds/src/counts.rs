//! What a process counts, and prints for the run.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// What a worker or shop counts.
#[derive(Clone, Copy)]
pub enum Event {
    Statement,
    Placed,
    /// A statement was repeated: its connection was lost, or its transaction lost against another one.
    Repeated,
    /// The process dropped a connection instead of reading an answer, as `--lose-one-in` asks for.
    AnswerLost,
    /// The database notified a worker of a hold that is nearer than the horizon.
    Notified,
    /// The worker's clock and the database's differ by more than a minute.
    WrongClock,
    /// A worker noticed that its clock or the database's was set.
    ClockSet,
    /// The database refused to release holds, because their deadlines were still ahead.
    Early,
    /// The database refused to release holds, because the lease had expired.
    Refused,
    LeaseLost,
    /// A worker found holds that it had claimed without the answer.
    Recovered,
    /// A worker did not renew its lease, because it could release nothing.
    NotRenewed,
}

/// Number of different events.
pub const EVENTS: usize = Event::NotRenewed as usize + 1;
static COUNTS: [AtomicU64; EVENTS] = [const { AtomicU64::new(0) }; EVENTS];

/// Counts an event of this process.
pub fn count(event: Event) {
    COUNTS[event as usize].fetch_add(1, Ordering::Relaxed);
}

/// Prints the counts since the last call as one line. If the run has ended, nothing reads it.
pub fn print_counts() {
    let counts = COUNTS.each_ref().map(|count| count.swap(0, Ordering::Relaxed).to_string());
    let _ = writeln!(io::stdout(), "{}", counts.join(" "));
}

/// Prints the counts from now on, often enough that a kill loses few.
pub fn keep_printing_counts() {
    thread::spawn(|| {
        loop {
            thread::sleep(Duration::from_millis(250));
            print_counts();
        }
    });
}
