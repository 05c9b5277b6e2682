//! [`Stats`] by way of the [`metrics`] facade.
//!
//! | name                             | kind      | unit    | what                                                   |
//! |----------------------------------|-----------|---------|--------------------------------------------------------|
//! | `corewheel_scheduled_total`      | counter   | count   | timers accepted                                        |
//! | `corewheel_fired_total`          | counter   | count   | runs started                                           |
//! | `corewheel_completed_total`      | counter   | count   | timers that ended by running                           |
//! | `corewheel_cancelled_total`      | counter   | count   | timers cancelled                                       |
//! | `corewheel_unfired_total`        | counter   | count   | timers handed back by a shutdown                       |
//! | `corewheel_rearmed_total`        | counter   | count   | deadlines moved                                        |
//! | `corewheel_enqueued_total`       | counter   | count   | timers that gave the shard's thread work               |
//! | `corewheel_panicked_total`       | counter   | count   | panics of callbacks                                    |
//! | `corewheel_rejected_total`       | counter   | count   | timers refused                                         |
//! | `corewheel_wakeups_total`        | counter   | count   | times the shard's thread woke up                       |
//! | `corewheel_pending`              | gauge     | count   | timers pending                                         |
//! | `corewheel_lateness_seconds`     | histogram | seconds | how much later than its tick a run started, to an eighth |
//!
//! Each has the label `shard`, from 0. These are of the timer as a whole, and have no label:
//!
//! | name                                   | kind    | unit  | what                                                    |
//! |----------------------------------------|---------|-------|---------------------------------------------------------|
//! | `corewheel_extra_threads`              | gauge   | count | extra threads that the pool has now                     |
//! | `corewheel_extra_threads_needed_total` | counter | count | times an extra thread was called or started             |

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

/// Hands the [`Stats`] of one timer to the recorder.
///
/// ```
/// use corewheel::Timer;
/// use corewheel::metrics::Exporter;
///
/// let timer = Timer::new()?;
/// let mut exporter = Exporter::new();
/// // From time to time, or when they are asked for:
/// exporter.export(&timer.stats());
/// # Ok::<(), corewheel::BuildError>(())
/// ```
#[derive(Debug, Default)]
pub struct Exporter {
    /// What of each shard's lateness was exported before.
    exported: Vec<Lateness>,
}

impl Exporter {
    /// An exporter for one timer. Describes the metrics to the recorder.
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

    /// Hands over what has been counted, and the lateness of the runs since the last time.
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
