//! Counts how every timer of a round ended, and compares the counts with `Timer::stats`.

use std::iter;
use std::ops::AddAssign;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::Ordering::Relaxed;

use corewheel::{Stats, UnfiredTimer};

use crate::fault;
use crate::record::{TimerRecord, mark};
use crate::tally::Tally;

#[derive(Default)]
pub struct Account {
    /// Callbacks that were accepted.
    pub scheduled: u64,
    /// Accepted callbacks that ended by running.
    pub completed: u64,
    /// Accepted callbacks that were cancelled.
    pub cancelled: u64,
    /// Accepted callbacks that the shutdown handed back.
    pub unfired: u64,
    /// Runs of callbacks, and sleeps that were woken at their deadline.
    pub fired: u64,
    /// Runs that kept their thread busy.
    pub slow: u64,
    pub refused: u64,
    /// Sleeps that were pending when they were first polled.
    pub sleeps: u64,
    /// Sleeps that were dropped before they had elapsed.
    pub sleeps_dropped: u64,
    /// Resets by handles that returned true.
    pub resets: u64,
    pub panicked: u64,
    /// Threads that ended by a panic.
    pub thread_panics: u64,
}

impl Account {
    /// Counts the timers of a service that was shut down. The caller must have joined all threads, and must drop the
    /// unfired timers only afterwards.
    pub fn new(records: &[TimerRecord], tally: &Tally, unfired: u64, stats: &Stats) -> Self {
        let mut account = Self { resets: tally.resets, thread_panics: tally.thread_panics, ..Self::default() };
        records.iter().for_each(|record| account.add(record));
        account.compare(tally, unfired, stats);
        account
    }

    fn add(&mut self, record: &TimerRecord) {
        let [runs, drops, cancels] = [&record.runs, &record.drops, &record.cancels].map(|count| count.load(Relaxed));
        let kind = self.count(record, runs, drops, cancels);
        if let Err(kind) = kind {
            let marks = format!("accepted {}, ended {}", record.has(mark::ACCEPTED), record.has(mark::ENDED));
            fault::note(|| format!("{kind} with {runs} runs, {cancels} cancels and {drops} drops ({marks})"));
        }
        if let Some(time) = record.early()
            && !record.has(mark::REPEATS)
        {
            fault::note(|| format!("a timer was {time:?} early"));
        }
        self.fired += u64::from(runs);
        self.slow += if record.has(mark::SLOW) { u64::from(runs) } else { 0 };
        self.panicked += u64::from(record.has(mark::PANICKED));
    }

    /// Counts how one timer ended. Returns an error with its kind if its record contradicts the promises.
    fn count(&mut self, record: &TimerRecord, runs: u32, drops: u32, cancels: u32) -> Result<(), &'static str> {
        let check = |right, kind| if right { Ok(()) } else { Err(kind) };
        if record.has(mark::SLEEPS) {
            let accepted = u64::from(record.has(mark::ACCEPTED));
            self.sleeps += accepted;
            let over = record.has(mark::ENDED) || runs > 0;
            self.sleeps_dropped += if over { 0 } else { accepted };
            return check(drops == 1 && cancels == 0 && (accepted == 1 || runs == 0), "a sleep");
        }
        if record.has(mark::REFUSED) {
            self.refused += 1;
            return check((runs, drops, cancels) == (0, 1, 0), "a timer that was refused");
        }
        if !record.has(mark::ACCEPTED) {
            return check((runs, drops, cancels) == (0, 0, 0), "a timer that was never scheduled");
        }
        self.scheduled += 1;
        let repeats = record.has(mark::REPEATS);
        if drops == 0 {
            self.unfired += 1;
            record.mark(mark::UNFIRED);
            return check(cancels == 0 && (repeats || runs == 0), "a timer that was handed back");
        }
        let guarded = record.has(mark::GUARDED) && runs == 0;
        if cancels > 0 || guarded {
            self.cancelled += 1;
            return check(drops == 1 && cancels <= 1 && (repeats || runs == 0), "a timer that was cancelled");
        }
        self.completed += 1;
        let ended = if repeats { record.has(mark::ENDED) } else { runs == 1 };
        check(drops == 1 && ended, "a timer that has fired")
    }

    /// Compares the counts with the timer's own statistics.
    fn compare(&self, tally: &Tally, unfired: u64, stats: &Stats) {
        // A sleep that is reset after it has elapsed counts once more.
        let slack = tally.sleep_resets;
        let slept = self.sleeps - self.sleeps_dropped;
        fault::unless_within("timers accepted", stats.scheduled, self.scheduled + self.sleeps, slack);
        fault::unless_within("timers completed", stats.completed, self.completed + slept, slack);
        fault::unless_within("timers cancelled", stats.cancelled, self.cancelled + self.sleeps_dropped, slack);
        fault::unless_within("timers reset", stats.resets, self.resets, slack);
        fault::unless_equal("timers handed back", stats.unfired, self.unfired);
        fault::unless_equal("timers in `Unfired`", unfired, self.unfired);
        fault::unless_equal("timers refused", stats.rejected, self.refused);
        fault::unless_equal("runs", stats.fired, self.fired);
        fault::unless_equal("runs with a lateness", stats.lateness.count(), self.fired);
        fault::unless_equal("panics", stats.panicked, self.panicked);
        fault::unless_equal("timers pending", stats.pending, 0);
        let ended = stats.completed + stats.cancelled + stats.unfired + stats.pending;
        fault::unless_equal("timers that have ended or are pending", ended, stats.scheduled);
        let shards = stats.shards().iter().map(|shard| shard.scheduled).sum();
        fault::unless_equal("timers accepted by all shards", shards, stats.scheduled);
    }

    /// Runs half of the unfired timers and drops the rest, then checks that every closure was dropped once.
    pub fn close(&self, records: &[TimerRecord], unfired: Vec<UnfiredTimer>) {
        let runs = || records.iter().map(|record| u64::from(record.runs.load(Relaxed))).sum::<u64>();
        let before = runs();
        let mut ran = 0;
        for (timer, should_run) in unfired.into_iter().zip(iter::repeat([true, false]).flatten()) {
            if should_run {
                ran += 1;
                // Some of them panic.
                let _ = panic::catch_unwind(AssertUnwindSafe(|| timer.run()));
            }
        }
        if runs() - before != ran {
            fault::note(|| format!("{} runs of {ran} timers that were handed back", runs() - before));
        }
        for record in records {
            let used = record.has(mark::ACCEPTED | mark::REFUSED | mark::SLEEPS);
            let drops = record.drops.load(Relaxed);
            if drops != u32::from(used) {
                fault::note(|| format!("a closure was dropped {drops} times"));
            }
        }
    }
}

impl AddAssign for Account {
    fn add_assign(&mut self, other: Self) {
        self.scheduled += other.scheduled;
        self.completed += other.completed;
        self.cancelled += other.cancelled;
        self.unfired += other.unfired;
        self.fired += other.fired;
        self.slow += other.slow;
        self.refused += other.refused;
        self.sleeps += other.sleeps;
        self.sleeps_dropped += other.sleeps_dropped;
        self.resets += other.resets;
        self.panicked += other.panicked;
        self.thread_panics += other.thread_panics;
    }
}
