//! Reports [`Stats`] through the `metrics` facade: see [`Exporter`].
//!
//! | name                             | kind      | unit    | what                                                 |
//! |----------------------------------|-----------|---------|------------------------------------------------------|
//! | `corewheel_scheduled_total`      | counter   | count   | timers accepted                                      |
//! | `corewheel_fired_total`          | counter   | count   | runs started                                         |
//! | `corewheel_completed_total`      | counter   | count   | timers that ended by running, sleeps, due values     |
//! | `corewheel_cancelled_total`      | counter   | count   | timers cancelled                                     |
//! | `corewheel_unfired_total`        | counter   | count   | callbacks and values that a shutdown left unfired    |
//! | `corewheel_resets_total`         | counter   | count   | resets that found their timer pending                |
//! | `corewheel_enqueued_total`       | counter   | count   | timers that gave the shard's driver work             |
//! | `corewheel_panicked_total`       | counter   | count   | panics caught                                        |
//! | `corewheel_rejected_total`       | counter   | count   | timers refused                                       |
//! | `corewheel_wakeups_total`        | counter   | count   | wake-ups of the shard's driver                       |
//! | `corewheel_pending`              | gauge     | count   | timers pending                                       |
//! | `corewheel_running`              | gauge     | count   | callbacks and sleeps' wakers that run now            |
//! | `corewheel_lateness_seconds_bucket` | counter | count  | runs that started at most `le` seconds after their tick |
//!
//! Each has the label `shard`, which counts from 0. These concern the timer as a whole, and have no such label:
//!
//! | name                                   | kind    | unit  | what                                                 |
//! |----------------------------------------|---------|-------|------------------------------------------------------|
//! | `corewheel_extra_threads`              | gauge   | count | extra threads that the pool has now                  |
//! | `corewheel_extra_threads_needed_total` | counter | count | how often the pool needed an extra thread            |
//!
//! # The lateness
//!
//! `corewheel_lateness_seconds_bucket` is a histogram in the way of Prometheus. Its label `le` has the bounds of the
//! buckets: powers of two from 2^16 ns (65.5 µs) to 2^35 ns (34.4 s), in seconds, and `+Inf`. A bucket includes those
//! below it, so `le="+Inf"` counts all runs. This query draws the p99 of the last five minutes:
//!
//! ```text
//! histogram_quantile(0.99, sum by (le) (rate(corewheel_lateness_seconds_bucket[5m])))
//! ```
//!
//! The facade's own histograms take one sample for each run, and some recorders store each. Counters cost the same for
//! any number of runs. [`Lateness::buckets`] has finer buckets.
//!
//! # Several timers
//!
//! Each timer has an [`Exporter`] of its own. Counters are incremented by the difference of two readings. So the counts
//! of several timers add up, and those of a timer that replaces another continue them. A gauge shows the timer that was
//! exported last: give each exporter a [label](Exporter::with_labels) that tells the timers apart.

use std::time::Duration;

use metrics::{IntoLabels, Label, Unit, describe_counter, describe_gauge};

use crate::{Lateness, ShardStats, Stats};

type Counter = (&'static str, &'static str, fn(&ShardStats) -> u64);

const COUNTERS: [Counter; 10] = [
    ("corewheel_scheduled_total", "Timers accepted", |stats| stats.scheduled),
    ("corewheel_fired_total", "Runs started", |stats| stats.fired),
    ("corewheel_completed_total", "Timers that ended by running, sleeps, due values", |stats| stats.completed),
    ("corewheel_cancelled_total", "Timers cancelled", |stats| stats.cancelled),
    ("corewheel_unfired_total", "Callbacks and values that a shutdown left unfired", |stats| stats.unfired),
    ("corewheel_resets_total", "Deadlines reset", |stats| stats.resets),
    ("corewheel_enqueued_total", "Timers that gave the shard's thread work", |stats| stats.enqueued),
    ("corewheel_panicked_total", "Panics caught", |stats| stats.panicked),
    ("corewheel_rejected_total", "Timers refused", |stats| stats.rejected),
    ("corewheel_wakeups_total", "Times the shard's thread woke up", |stats| stats.wakeups),
];
const PENDING: &str = "corewheel_pending";
const RUNNING: &str = "corewheel_running";
const EXTRA_THREADS: &str = "corewheel_extra_threads";
const EXTRA_THREADS_NEEDED: &str = "corewheel_extra_threads_needed_total";
const LATENESS: &str = "corewheel_lateness_seconds_bucket";

/// The bounds of the lateness buckets: powers of two, in nanoseconds.
const BOUNDS: std::ops::RangeInclusive<u32> = 16..=35;

/// Reports the [`Stats`] of one timer to the recorder of the program. [The module](self) lists the metrics.
///
/// ```
/// use corewheel::Timer;
/// use corewheel::metrics::Exporter;
///
/// let timer = Timer::new()?;
/// let mut exporter = Exporter::with_labels(&[("timer", "timeouts")]);
/// // Every ten seconds, or before each scrape. Not in a callback of this timer: `corewheel_running` would count it.
/// exporter.export(&timer.stats());
/// # Ok::<(), corewheel::BuildError>(())
/// ```
#[derive(Debug)]
pub struct Exporter {
    /// The labels of all metrics.
    labels: Vec<Label>,
    /// The buckets of the lateness: their bounds, each with its label `le`.
    bounds: Vec<(Duration, Label)>,
    /// What has been exported.
    exported: Stats,
}

impl Exporter {
    /// Creates an exporter for one timer, and describes the metrics to the recorder.
    ///
    /// ```
    /// use corewheel::metrics::Exporter;
    ///
    /// // Install the recorder of the program first.
    /// let exporter = Exporter::new();
    /// # drop(exporter);
    /// ```
    pub fn new() -> Self {
        Self::with_labels(Vec::new())
    }

    /// Creates an exporter as [`new`](Self::new) does, which adds `labels` to each metric. In a program with several
    /// timers, a label `timer` tells them apart.
    ///
    /// ```
    /// use corewheel::metrics::Exporter;
    ///
    /// let of_timeouts = Exporter::with_labels(&[("timer", "timeouts")]);
    /// let of_retries = Exporter::with_labels(&[("timer", "retries")]);
    /// # drop((of_timeouts, of_retries));
    /// ```
    pub fn with_labels(labels: impl IntoLabels) -> Self {
        for (name, description, _) in COUNTERS {
            describe_counter!(name, Unit::Count, description);
        }
        describe_gauge!(PENDING, Unit::Count, "Timers pending");
        describe_gauge!(RUNNING, Unit::Count, "Callbacks and wakers of sleeps that run now");
        describe_gauge!(EXTRA_THREADS, Unit::Count, "Extra threads that the pool has");
        describe_counter!(EXTRA_THREADS_NEEDED, Unit::Count, "Times an extra thread was called or started");
        describe_counter!(LATENESS, Unit::Count, "Runs that started at most `le` seconds after their tick");
        let finite = BOUNDS.map(|power| Duration::from_nanos(1 << power));
        let label = |bound: Duration| (bound, Label::new("le", bound.as_secs_f64().to_string()));
        let bounds = finite.map(label).chain([(Duration::MAX, Label::new("le", "+Inf"))]);
        Self { labels: labels.into_labels(), bounds: bounds.collect(), exported: Stats::default() }
    }

    /// Reports what has happened since the last call, and how many timers are pending. The first call reports
    /// everything since the timer was built.
    ///
    /// All calls must pass the statistics of the same timer. The cost grows with the number of shards, and not with the
    /// number of timers or runs.
    ///
    /// ```
    /// use corewheel::Timer;
    /// use corewheel::metrics::Exporter;
    /// use std::{thread, time::Duration};
    ///
    /// let timer = Timer::new()?;
    /// let mut exporter = Exporter::new();
    /// let weak = timer.downgrade();
    /// thread::spawn(move || {
    ///     while let Some(timer) = weak.upgrade() {
    ///         exporter.export(&timer.stats());
    ///         drop(timer);
    ///         thread::sleep(Duration::from_secs(10));
    ///     }
    /// });
    /// # Ok::<(), corewheel::BuildError>(())
    /// ```
    pub fn export(&mut self, stats: &Stats) {
        let new = stats.since(&self.exported);
        metrics::gauge!(EXTRA_THREADS, self.labels.clone()).set(new.extra_threads as f64);
        metrics::counter!(EXTRA_THREADS_NEEDED, self.labels.clone()).increment(new.extra_threads_needed);
        for (index, shard) in new.shards().iter().enumerate() {
            let own = Label::new("shard", index.to_string());
            let labels: Vec<Label> = self.labels.iter().cloned().chain([own]).collect();
            for (name, _, count) in COUNTERS {
                metrics::counter!(name, labels.clone()).increment(count(shard));
            }
            metrics::gauge!(PENDING, labels.clone()).set(shard.pending as f64);
            metrics::gauge!(RUNNING, labels.clone()).set(shard.running as f64);
            for (bound, label) in &self.bounds {
                let labels: Vec<Label> = labels.iter().chain([label]).cloned().collect();
                metrics::counter!(LATENESS, labels).increment(runs_within(&shard.lateness, *bound));
            }
        }
        self.exported.clone_from(stats);
    }
}

impl Default for Exporter {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the number of runs that were late by `bound` at most.
fn runs_within(lateness: &Lateness, bound: Duration) -> u64 {
    lateness.buckets().filter(|&(up_to, _)| up_to <= bound).map(|(_, runs)| runs).sum()
}
