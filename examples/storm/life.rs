//! The life of one timer, as its closure and those who handle it tell it.
//!
//! All is relaxed: that whoever settles the account sees what was done on other threads is for the timer to see to.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{LazyLock, OnceLock};
use std::time::{Duration, Instant};
use std::{iter, panic};

use crate::fault;

/// Marks of a life.
pub mod mark {
    pub const ACCEPTED: u32 = 1;
    pub const REFUSED: u32 = 1 << 1;
    pub const REPEATS: u32 = 1 << 2;
    pub const SLEEPS: u32 = 1 << 3;
    /// It is cancelled when its handle is dropped, which does not tell.
    pub const GUARDED: u32 = 1 << 4;
    /// A repeating timer was moved, so nobody knows when its next run is due.
    pub const MOVED: u32 = 1 << 5;
    /// It has ended by itself: a repeating timer had its last run, or a sleep was seen to be over.
    pub const ENDED: u32 = 1 << 6;
    pub const PANICKED: u32 = 1 << 7;
    pub const RUNNING: u32 = 1 << 8;
    /// It was handed back, and so may run at any time.
    pub const UNFIRED: u32 = 1 << 9;
    /// Its run keeps a thread for a while.
    pub const SLOW: u32 = 1 << 10;
}

#[derive(Default)]
pub struct Life {
    marks: AtomicU32,
    pub runs: AtomicU32,
    pub drops: AtomicU32,
    /// How often a cancel was told that it won.
    pub cancels: AtomicU32,
    /// It may not run before this, which is [so many nanoseconds](now) after the beginning.
    floor: AtomicU64,
    /// When it ran last.
    ran: AtomicU64,
}

/// Nanoseconds since the storm began.
pub fn now() -> u64 {
    static BEGINNING: LazyLock<Instant> = LazyLock::new(Instant::now);
    let beginning = *BEGINNING;
    nanos(beginning.elapsed())
}

/// The earliest that something may run which is due `delay` after now, or later.
pub fn floor(delay: Duration) -> u64 {
    now().saturating_add(nanos(delay))
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Life {
    /// Makes it that of another timer.
    pub fn clear(&self) {
        for count in [&self.marks, &self.runs, &self.drops, &self.cancels] {
            count.store(0, Relaxed);
        }
        self.floor.store(0, Relaxed);
        self.ran.store(0, Relaxed);
    }

    /// Sets marks; returns whether one of them was set before.
    pub fn mark(&self, marks: u32) -> bool {
        self.marks.fetch_or(marks, Relaxed) & marks != 0
    }

    pub fn has(&self, marks: u32) -> bool {
        self.marks.load(Relaxed) & marks != 0
    }

    /// Nobody else can move it, and it may run from `floor` on.
    pub fn aim(&self, floor: u64) {
        self.floor.store(floor, Relaxed);
    }

    /// It may run from `floor` on, or from whenever it might before.
    pub fn may_run(&self, floor: u64) {
        self.floor.fetch_min(floor, Relaxed);
    }

    /// It runs.
    pub fn run(&self) {
        self.run_while(|| ());
    }

    /// It runs, for as long as `f` does.
    pub fn run_while(&self, f: impl FnOnce()) {
        if self.mark(mark::RUNNING) {
            fault::note(|| "two runs of one timer overlapped".to_owned());
        }
        self.ran.store(now(), Relaxed);
        self.runs.fetch_add(1, Relaxed);
        f();
        self.marks.fetch_and(!mark::RUNNING, Relaxed);
    }

    /// How much too early it ran, if it did.
    pub fn early(&self) -> Option<Duration> {
        let (ran, floor) = (self.ran.load(Relaxed), self.floor.load(Relaxed));
        (self.runs.load(Relaxed) > 0 && ran < floor).then(|| Duration::from_nanos(floor - ran))
    }

    pub fn was_dropped(&self) -> bool {
        self.drops.load(Relaxed) > 0
    }
}

/// The lives of all timers of a round, and then of the next.
pub struct Lives {
    all: Vec<Life>,
    taken: AtomicUsize,
    /// As many are given out in this round.
    limit: AtomicUsize,
}

impl Lives {
    /// As many as the longest round can need. They are never freed, so that what comes too late is seen to. To be called
    /// once.
    pub fn new(most: usize) -> &'static Self {
        static LIVES: OnceLock<Lives> = OnceLock::new();
        LIVES.get_or_init(|| Self {
            all: iter::repeat_with(Life::default).take(most).collect(),
            taken: AtomicUsize::new(0),
            limit: AtomicUsize::new(0),
        })
    }

    /// Begins a round.
    pub fn renew(&self, limit: usize) {
        self.used().iter().for_each(Life::clear);
        self.limit.store(limit.min(self.all.len()), Relaxed);
        self.taken.store(0, Relaxed);
    }

    /// Gives out as many, or the last of them; and tells how many were given out before.
    pub fn take(&self, count: usize) -> Option<(usize, &[Life])> {
        let (start, limit) = (self.taken.fetch_add(count, Relaxed), self.limit.load(Relaxed));
        (start < limit).then(|| (start, &self.all[start..limit.min(start + count)]))
    }

    /// All that were given out.
    pub fn used(&self) -> &[Life] {
        &self.all[..self.taken.load(Relaxed).min(self.limit.load(Relaxed))]
    }
}

/// What a closure captures: tells its life when it runs and when it is dropped.
pub struct Soul(&'static Life);

impl Soul {
    pub fn new(life: &'static Life) -> Self {
        Self(life)
    }

    pub fn life(&self) -> &'static Life {
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

impl Drop for Soul {
    fn drop(&mut self) {
        self.0.drops.fetch_add(1, Relaxed);
    }
}
