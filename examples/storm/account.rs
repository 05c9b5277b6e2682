//! What became of every timer of a round, and whether the timer's own figures say the same.

use std::iter;
use std::ops::AddAssign;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::Ordering::Relaxed;

use corewheel::{Stats, UnfiredTimer};

use crate::fault;
use crate::life::{Life, mark};
use crate::round::Tally;

#[derive(Default)]
pub struct Account {
    /// Callbacks that were accepted.
    pub scheduled: u64,
    /// Of these, those that ended by running,
    pub completed: u64,
    /// by a cancel,
    pub cancelled: u64,
    /// and by the shutdown.
    pub unfired: u64,
    /// Runs, and sleeps that were woken in time.
    pub fired: u64,
    /// Of these, those that kept their thread.
    pub slow: u64,
    pub refused: u64,
    /// Sleeps that were pending when they were first polled.
    pub sleeps: u64,
    /// Of these, those that were dropped before they were over.
    pub sleeps_dropped: u64,
    pub moved: u64,
    pub panicked: u64,
    /// Threads that died.
    pub deaths: u64,
}

impl Account {
    /// Settles the account of a timer that was shut down, when all is quiet, and before what was handed back is dropped.
    pub fn settle(lives: &[Life], tally: &Tally, unfired: u64, stats: &Stats) -> Self {
        let mut account = Self { moved: tally.moved, deaths: tally.deaths, ..Self::default() };
        lives.iter().for_each(|life| account.add(life));
        account.compare(tally, unfired, stats);
        account
    }

    fn add(&mut self, life: &Life) {
        let [runs, drops, cancels] = [&life.runs, &life.drops, &life.cancels].map(|count| count.load(Relaxed));
        let kind = self.count(life, runs, drops, cancels);
        if let Err(kind) = kind {
            let marks = format!("accepted {}, ended {}", life.has(mark::ACCEPTED), life.has(mark::ENDED));
            fault::note(|| format!("{kind} with {runs} runs, {cancels} cancels and {drops} drops ({marks})"));
        }
        if let Some(time) = life.early()
            && !life.has(mark::REPEATS)
        {
            fault::note(|| format!("a timer was {time:?} early"));
        }
        self.fired += u64::from(runs);
        self.slow += if life.has(mark::SLOW) { u64::from(runs) } else { 0 };
        self.panicked += u64::from(life.has(mark::PANICKED));
    }

    /// Counts how one timer has ended; an error if that is no way to end.
    fn count(&mut self, life: &Life, runs: u32, drops: u32, cancels: u32) -> Result<(), &'static str> {
        let check = |right, kind| if right { Ok(()) } else { Err(kind) };
        if life.has(mark::SLEEPS) {
            let accepted = u64::from(life.has(mark::ACCEPTED));
            self.sleeps += accepted;
            let over = life.has(mark::ENDED) || runs > 0;
            self.sleeps_dropped += if over { 0 } else { accepted };
            return check(drops == 1 && cancels == 0 && (accepted == 1 || runs == 0), "a sleep");
        }
        if life.has(mark::REFUSED) {
            self.refused += 1;
            return check((runs, drops, cancels) == (0, 1, 0), "a timer that was refused");
        }
        if !life.has(mark::ACCEPTED) {
            return check((runs, drops, cancels) == (0, 0, 0), "a timer that was never scheduled");
        }
        self.scheduled += 1;
        let repeats = life.has(mark::REPEATS);
        if drops == 0 {
            self.unfired += 1;
            life.mark(mark::UNFIRED);
            return check(cancels == 0 && (repeats || runs == 0), "a timer that was handed back");
        }
        let guarded = life.has(mark::GUARDED) && runs == 0;
        if cancels > 0 || guarded {
            self.cancelled += 1;
            return check(drops == 1 && cancels <= 1 && (repeats || runs == 0), "a timer that was cancelled");
        }
        self.completed += 1;
        let ended = if repeats { life.has(mark::ENDED) } else { runs == 1 };
        check(drops == 1 && ended, "a timer that has fired")
    }

    /// Compares it with the timer's own figures.
    fn compare(&self, tally: &Tally, unfired: u64, stats: &Stats) {
        // A sleep that is moved when it is over counts once more.
        let slack = tally.naps_moved;
        let slept = self.sleeps - self.sleeps_dropped;
        fault::unless_within("timers accepted", stats.scheduled, self.scheduled + self.sleeps, slack);
        fault::unless_within("timers completed", stats.completed, self.completed + slept, slack);
        fault::unless_within("timers cancelled", stats.cancelled, self.cancelled + self.sleeps_dropped, slack);
        fault::unless_within("timers moved", stats.rearmed, self.moved, slack);
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

    /// Runs half of what was handed back, and drops the rest: then every closure has been dropped once.
    pub fn close(&self, lives: &[Life], unfired: Vec<UnfiredTimer>) {
        let runs = || lives.iter().map(|life| u64::from(life.runs.load(Relaxed))).sum::<u64>();
        let before = runs();
        let mut ran = 0;
        for (timer, runs) in unfired.into_iter().zip(iter::repeat([true, false]).flatten()) {
            if runs {
                ran += 1;
                // Some of them panic.
                let _ = panic::catch_unwind(AssertUnwindSafe(|| timer.run()));
            }
        }
        if runs() - before != ran {
            fault::note(|| format!("{} runs of {ran} timers that were handed back", runs() - before));
        }
        for life in lives {
            let used = life.has(mark::ACCEPTED | mark::REFUSED | mark::SLEEPS);
            let drops = life.drops.load(Relaxed);
            if drops != u32::from(used) {
                fault::note(|| format!("a closure was dropped {drops} times in the end"));
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
        self.moved += other.moved;
        self.panicked += other.panicked;
        self.deaths += other.deaths;
    }
}
