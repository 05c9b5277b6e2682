//! The record of one timer: its closure and the threads that use its handle write it.
//!
//! All accesses are relaxed. The timer itself must order what other threads have recorded before the thread that
//! counts.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{LazyLock, OnceLock};
use std::time::{Duration, Instant};
use std::{iter, panic};

use crate::fault;

/// Marks of a record.
pub mod mark {
    pub const ACCEPTED: u32 = 1;
    pub const REFUSED: u32 = 1 << 1;
    pub const REPEATS: u32 = 1 << 2;
    pub const SLEEPS: u32 = 1 << 3;
    /// A guard cancels the timer when it is dropped; the drop does not report whether it did.
    pub const GUARDED: u32 = 1 << 4;
    /// A repeating timer was reset, so the deadline of its next run is unknown.
    pub const RESET: u32 = 1 << 5;
    /// The timer has ended by itself: a repeating timer after its last run, or a sleep that has elapsed.
    pub const ENDED: u32 = 1 << 6;
    pub const PANICKED: u32 = 1 << 7;
    pub const RUNNING: u32 = 1 << 8;
    /// The shutdown handed the timer back, so it may run at any time.
    pub const UNFIRED: u32 = 1 << 9;
    /// The run keeps its thread busy for a while.
    pub const SLOW: u32 = 1 << 10;
}

#[derive(Default)]
pub struct TimerRecord {
    marks: AtomicU32,
    pub runs: AtomicU32,
    pub drops: AtomicU32,
    /// Number of cancels that returned true.
    pub cancels: AtomicU32,
    /// Time before which a run would be early, in nanoseconds since the [start](now).
    earliest: AtomicU64,
    /// Time of the last run, in the same unit.
    ran: AtomicU64,
}

/// Returns the nanoseconds since the storm started.
pub fn now() -> u64 {
    static BEGINNING: LazyLock<Instant> = LazyLock::new(Instant::now);
    let beginning = *BEGINNING;
    nanos(beginning.elapsed())
}

/// Returns the earliest permitted time of a run whose delay starts now.
pub fn earliest(delay: Duration) -> u64 {
    now().saturating_add(nanos(delay))
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl TimerRecord {
    /// Clears the record for another timer.
    pub fn clear(&self) {
        for count in [&self.marks, &self.runs, &self.drops, &self.cancels] {
            count.store(0, Relaxed);
        }
        self.earliest.store(0, Relaxed);
        self.ran.store(0, Relaxed);
    }

    /// Sets marks; returns whether one of them was set before.
    pub fn mark(&self, marks: u32) -> bool {
        self.marks.fetch_or(marks, Relaxed) & marks != 0
    }

    pub fn has(&self, marks: u32) -> bool {
        self.marks.load(Relaxed) & marks != 0
    }

    /// Sets the earliest permitted time of a run. No other thread may reset the timer at the same time.
    pub fn set_earliest(&self, earliest: u64) {
        self.earliest.store(earliest, Relaxed);
    }

    /// Permits runs from `earliest` on, in addition to those permitted before.
    pub fn lower_earliest(&self, earliest: u64) {
        self.earliest.fetch_min(earliest, Relaxed);
    }

    /// Records a run.
    pub fn run(&self) {
        self.run_while(|| ());
    }

    /// Records a run that takes as long as `f`.
    pub fn run_while(&self, f: impl FnOnce()) {
        if self.mark(mark::RUNNING) {
            fault::note(|| "two runs of one timer overlapped".to_owned());
        }
        self.ran.store(now(), Relaxed);
        self.runs.fetch_add(1, Relaxed);
        f();
        self.marks.fetch_and(!mark::RUNNING, Relaxed);
    }

    /// Returns how much too early the last run was, if it was early.
    pub fn early(&self) -> Option<Duration> {
        let (ran, earliest) = (self.ran.load(Relaxed), self.earliest.load(Relaxed));
        (self.runs.load(Relaxed) > 0 && ran < earliest).then(|| Duration::from_nanos(earliest - ran))
    }

    pub fn was_dropped(&self) -> bool {
        self.drops.load(Relaxed) > 0
    }
}

/// The records of all timers of a round. Each round uses them again.
pub struct Records {
    all: Vec<TimerRecord>,
    taken: AtomicUsize,
    /// Maximum number of records in this round.
    limit: AtomicUsize,
}

impl Records {
    /// Creates records for the longest round. They are never freed, so a callback that runs too late still finds its
    /// record. Must be called only once.
    pub fn new(most: usize) -> &'static Self {
        static RECORDS: OnceLock<Records> = OnceLock::new();
        RECORDS.get_or_init(|| Self {
            all: iter::repeat_with(TimerRecord::default).take(most).collect(),
            taken: AtomicUsize::new(0),
            limit: AtomicUsize::new(0),
        })
    }

    /// Clears the records for a round of `limit` timers.
    pub fn renew(&self, limit: usize) {
        self.used().iter().for_each(TimerRecord::clear);
        self.limit.store(limit.min(self.all.len()), Relaxed);
        self.taken.store(0, Relaxed);
    }

    /// Takes `count` records, or the remaining ones if these are fewer. Returns the number taken before, too.
    pub fn take(&self, count: usize) -> Option<(usize, &[TimerRecord])> {
        let start = self.taken.fetch_add(count, Relaxed);
        let limit = self.limit.load(Relaxed);
        (start < limit).then(|| (start, &self.all[start..limit.min(start + count)]))
    }

    /// Returns all records that were taken.
    pub fn used(&self) -> &[TimerRecord] {
        &self.all[..self.taken.load(Relaxed).min(self.limit.load(Relaxed))]
    }
}

/// Captured by the closure of a timer: records its runs and its drop.
pub struct Probe(&'static TimerRecord);

impl Probe {
    pub fn new(record: &'static TimerRecord) -> Self {
        Self(record)
    }

    pub fn record(&self) -> &'static TimerRecord {
        self.0
    }

    pub fn run(&self) {
        self.0.run();
    }

    /// Panics, without a message on the terminal.
    pub fn panic(&self) -> ! {
        self.0.mark(mark::PANICKED);
        panic::resume_unwind(Box::new("a callback of the storm"))
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.0.drops.fetch_add(1, Relaxed);
    }
}
