//! Reports [`Stats`] through the `metrics` facade: see [`Exporter`].
//!
//! | name                             | kind      | unit    | what                                                 |
//! |----------------------------------|-----------|---------|------------------------------------------------------|
//! | `corewheel_scheduled_total`      | counter   | count   | timers accepted                                      |
//! | `corewheel_fired_total`          | counter   | count   | runs started                                         |
//! | `corewheel_completed_total`      | counter   | count   | timers that ended by running                         |
//! | `corewheel_cancelled_total`      | counter   | count   | timers cancelled                                     |
//! | `corewheel_unfired_total`        | counter   | count   | callbacks that a shutdown returned                   |
//! | `corewheel_rearmed_total`        | counter   | count   | resets that found their timer pending                |
//! | `corewheel_enqueued_total`       | counter   | count   | timers that gave the shard's driver work             |
//! | `corewheel_panicked_total`       | counter   | count   | panics caught                                        |
//! | `corewheel_rejected_total`       | counter   | count   | timers refused                                       |
//! | `corewheel_wakeups_total`        | counter   | count   | wake-ups of the shard's driver                       |
//! | `corewheel_pending`              | gauge     | count   | timers pending                                       |
//! | `corewheel_lateness_seconds`     | histogram | seconds | how late a run started after its tick, to an eighth  |
//!
//! Each has the label `shard`, which counts from 0. These concern the timer as a whole, and have no label:
//!
//! | name                                   | kind    | unit  | what                                                 |
//! |----------------------------------------|---------|-------|------------------------------------------------------|
//! | `corewheel_extra_threads`              | gauge   | count | extra threads that the pool has now                  |
//! | `corewheel_extra_threads_needed_total` | counter | count | how often the pool needed an extra thread            |

use metrics::{Label, Unit, describe_counter, describe_gauge, describe_histogram};

use crate::{Lateness, ShardStats, Stats};

type Counter = (&'static str, &'static str, fn(&ShardStats) -> u64);

const COUNTERS: [Counter; 10] = [
    ("corewheel_scheduled_total", "Timers accepted", |stats| stats.scheduled),
    ("corewheel_fired_total", "Runs started", |stats| stats.fired),
    ("corewheel_completed_total", "Timers that ended by running", |stats| stats.completed),
    ("corewheel_cancelled_total", "Timers cancelled", |stats| stats.cancelled),
    ("corewheel_unfired_total", "Timers handed back by a shutdown", |stats| stats.unfired),
    ("corewheel_rearmed_total", "Deadlines moved", |stats| stats.rearmed),
    ("corewheel_enqueued_total", "Timers that gave the shard's thread work", |stats| stats.enqueued),
    ("corewheel_panicked_total", "Panics of callbacks", |stats| stats.panicked),
    ("corewheel_rejected_total", "Timers refused", |stats| stats.rejected),
    ("corewheel_wakeups_total", "Times the shard's thread woke up", |stats| stats.wakeups),
];
const PENDING: &str = "corewheel_pending";
const EXTRA_THREADS: &str = "corewheel_extra_threads";
const EXTRA_THREADS_NEEDED: &str = "corewheel_extra_threads_needed_total";
const LATENESS: &str = "corewheel_lateness_seconds";

/// Reports the [`Stats`] of one timer to the recorder of the program. [The module](self) lists the metrics.
///
/// ```
/// use corewheel::Timer;
/// use corewheel::metrics::Exporter;
///
/// let timer = Timer::new()?;
/// let mut exporter = Exporter::new();
/// // Every ten seconds, or before each scrape:
/// exporter.export(&timer.stats());
/// # Ok::<(), corewheel::BuildError>(())
/// ```
#[derive(Debug, Default)]
pub struct Exporter {
    /// The lateness of each shard that has been exported.
    exported: Vec<Lateness>,
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
        for (name, description, _) in COUNTERS {
            describe_counter!(name, Unit::Count, description);
        }
        describe_gauge!(PENDING, Unit::Count, "Timers pending");
        describe_gauge!(EXTRA_THREADS, Unit::Count, "Extra threads that the pool has");
        describe_counter!(EXTRA_THREADS_NEEDED, Unit::Count, "Times an extra thread was called or started");
        describe_histogram!(LATENESS, Unit::Seconds, "How much later than its tick a run started");
        Self::default()
    }

    /// Reports all counts, and the lateness of the runs since the last call.
    ///
    /// ```
    /// use corewheel::Timer;
    /// use corewheel::metrics::Exporter;
    /// use std::time::Duration;
    ///
    /// let timer = Timer::new()?;
    /// let mut exporter = Exporter::new();
    /// let weak = timer.downgrade();
    /// let export = move || {
    ///     if let Some(timer) = weak.upgrade() {
    ///         exporter.export(&timer.stats());
    ///     }
    /// };
    /// timer.schedule_with_fixed_delay(Duration::ZERO, Duration::from_secs(10), export)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn export(&mut self, stats: &Stats) {
        metrics::gauge!(EXTRA_THREADS).set(stats.extra_threads as f64);
        metrics::counter!(EXTRA_THREADS_NEEDED).absolute(stats.extra_threads_needed);
        let shards = stats.shards();
        self.exported.resize_with(shards.len().max(self.exported.len()), Lateness::default);
        for (index, (shard, exported)) in shards.iter().zip(&mut self.exported).enumerate() {
            let labels = || vec![Label::new("shard", index.to_string())];
            for (name, _, count) in COUNTERS {
                metrics::counter!(name, labels()).absolute(count(shard));
            }
            metrics::gauge!(PENDING, labels()).set(shard.pending as f64);
            let lateness = metrics::histogram!(LATENESS, labels());
            for (late, runs) in shard.lateness.since(exported) {
                lateness.record_many(late.as_secs_f64(), usize::try_from(runs).unwrap_or(usize::MAX));
            }
            exported.clone_from(&shard.lateness);
        }
    }
}
