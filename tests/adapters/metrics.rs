//! What the adapter reports to a recorder of the `metrics` facade.

#[path = "../common/mod.rs"]
mod common;

use std::collections::BTreeMap;

use common::*;
use corewheel::metrics::Exporter;
use corewheel::{Executor, Timer};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};

/// The bounds of the lateness, with the last.
const BUCKETS: usize = 21;

/// What a recorder shows: values by name and labels.
type Recorded = BTreeMap<(String, String), DebugValue>;

/// Returns all recorded values.
fn recorded(snapshotter: &Snapshotter) -> Recorded {
    let all = snapshotter.snapshot().into_vec().into_iter();
    all.map(|(key, _, _, value)| {
        let labels: Vec<_> = key.key().labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        ((key.key().name().to_owned(), labels.join(",")), value)
    })
    .collect()
}

fn counter(all: &Recorded, name: &str, labels: &str) -> u64 {
    match all.get(&(name.to_owned(), labels.to_owned())) {
        Some(DebugValue::Counter(count)) => *count,
        other => panic!("{name} {labels} is {other:?}: {all:?}"),
    }
}

fn gauge(all: &Recorded, name: &str, labels: &str) -> f64 {
    match all.get(&(name.to_owned(), labels.to_owned())) {
        Some(DebugValue::Gauge(value)) => value.into_inner(),
        other => panic!("{name} {labels} is {other:?}: {all:?}"),
    }
}

#[test]
fn the_recorder_receives_every_counter() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        let (timer, clock) = in_virtual_time();
        let mut exporter = Exporter::new();
        for _ in 0..5 {
            timer.schedule(SEC, || ()).unwrap();
        }
        let other = timer.schedule(HOUR, || ()).unwrap();
        other.reset(2 * HOUR);
        clock.advance(SEC);
        exporter.export(&timer.stats());
        let mut all = recorded(&snapshotter);
        assert_eq!(all.len(), 14 + BUCKETS, "{all:?}");
        let mut value = |name: &str| all.remove(&(name.to_owned(), "shard=0".to_owned())).unwrap();
        for (name, count) in [("scheduled", 6), ("fired", 5), ("completed", 5), ("resets", 1), ("cancelled", 0)] {
            assert_eq!(value(&format!("corewheel_{name}_total")), DebugValue::Counter(count), "{name}");
        }
        assert_eq!(value("corewheel_pending"), DebugValue::Gauge(1.0.into()));
        assert_eq!(value("corewheel_running"), DebugValue::Gauge(0.0.into()));
        drop(other);
    });
}

#[cfg(target_os = "linux")]
#[test]
fn the_recorder_receives_the_number_of_extra_threads() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        let timer = Timer::builder().executor(Executor::Pool { threads: 1 }).build().unwrap();
        let gate = Gate::default();
        let (sender, receiver) = channel();
        for _ in 0..2 {
            let (gate, sender) = (gate.clone(), sender.clone());
            let block = move || {
                sender.send(()).unwrap();
                gate.pass();
            };
            timer.schedule(MS, block).unwrap();
        }
        wait_for(&receiver);
        wait_for(&receiver);
        let stats = timer.stats();
        assert!(stats.extra_threads > 0 && stats.extra_threads_needed > 0, "{stats:?}");
        Exporter::new().export(&stats);
        let mut all = recorded(&snapshotter);
        let mut value = |name: &str| all.remove(&(name.to_owned(), String::new())).unwrap();
        assert_eq!(value("corewheel_extra_threads"), DebugValue::Gauge((stats.extra_threads as f64).into()));
        assert_eq!(value("corewheel_extra_threads_needed_total"), DebugValue::Counter(stats.extra_threads_needed));
        gate.open();
    });
}

/// Returns the bounds and the counts of the lateness of a shard, in ascending order.
fn lateness(all: &Recorded, labels: &str) -> Vec<(f64, u64)> {
    let mut buckets: Vec<(f64, u64)> = Vec::new();
    for ((name, found), value) in all {
        if name == "corewheel_lateness_seconds_bucket"
            && let Some((rest, le)) = found.split_once(",le=")
            && rest == labels
            && let DebugValue::Counter(runs) = value
        {
            buckets.push((le.replace("+Inf", "inf").parse().unwrap(), *runs));
        }
    }
    buckets.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    assert_eq!(buckets.len(), BUCKETS);
    assert!(buckets.is_sorted_by_key(|(_, runs)| *runs), "a bucket includes those below it: {buckets:?}");
    buckets
}

#[test]
fn the_lateness_of_each_run_is_counted_once() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        let timer = Timer::builder().shards(2).build().unwrap();
        let mut exporter = Exporter::new();
        let mut counted = 0;
        for round in 1..=3 {
            for _ in 0..10 {
                timer.schedule(MS, || ()).unwrap();
            }
            eventually("all timers have fired", || timer.stats().completed == 10 * round);
            let stats = timer.stats();
            exporter.export(&stats);
            let all = recorded(&snapshotter);
            for index in 0..stats.shards().len() {
                // The snapshotter takes the counts out.
                counted += lateness(&all, &format!("shard={index}")).last().unwrap().1;
            }
            assert_eq!(counted, 10 * round);
        }
    });
}

#[test]
fn a_late_run_counts_from_its_bound_on() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        let timer = Timer::builder().shards(1).executor(Executor::Inline).build().unwrap();
        let gate = Gate::default();
        let (sender, receiver) = channel();
        block(&timer, 1, &gate);
        Exporter::new().export(&timer.stats());
        assert_eq!(gauge(&recorded(&snapshotter), "corewheel_running", "shard=0"), 1.0);
        timer.schedule(MS, move || sender.send(()).unwrap()).unwrap();
        std::thread::sleep(100 * MS);
        gate.open();
        wait_for(&receiver);
        eventually("the timer has ended", || timer.is_empty());
        Exporter::new().export(&timer.stats());
        let buckets = lateness(&recorded(&snapshotter), "shard=0");
        assert_eq!(buckets.last(), Some(&(f64::INFINITY, 2)));
        let early = buckets.iter().filter(|(bound, _)| *bound < 0.098);
        assert!(early.clone().count() > 5 && early.into_iter().all(|(_, runs)| *runs <= 1), "{buckets:?}");
    });
}

/// A snapshot of the debugging recorder takes the counts out, so each shows what was added since the last.
#[test]
fn each_export_adds_the_difference_to_the_last() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        let (timer, clock) = in_virtual_time();
        let mut exporter = Exporter::new();
        for round in 1..=3 {
            for _ in 0..round {
                timer.schedule(SEC, || ()).unwrap();
            }
            timer.schedule(YEAR, || ()).unwrap();
            clock.advance(SEC);
            exporter.export(&timer.stats());
            let all = recorded(&snapshotter);
            assert_eq!(counter(&all, "corewheel_fired_total", "shard=0"), round);
            assert_eq!(counter(&all, "corewheel_scheduled_total", "shard=0"), round + 1);
            assert_eq!(gauge(&all, "corewheel_pending", "shard=0"), round as f64);
            assert_eq!(lateness(&all, "shard=0").first().unwrap().1, round, "in virtual time no run is late");
        }
        exporter.export(&timer.stats());
        let all = recorded(&snapshotter);
        assert_eq!(counter(&all, "corewheel_fired_total", "shard=0"), 0);
        assert_eq!(lateness(&all, "shard=0").last().unwrap().1, 0);
    });
}

#[test]
fn the_counts_of_two_timers_and_of_one_built_anew_add_up() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        let schedule = |timers: u64| {
            let (timer, clock) = in_virtual_time();
            (0..timers).for_each(|_| _ = timer.schedule(SEC, || ()).unwrap());
            clock.advance(SEC);
            timer
        };
        let (large, small) = (schedule(100), schedule(3));
        Exporter::new().export(&large.stats());
        Exporter::new().export(&small.stats());
        drop(large);
        Exporter::new().export(&schedule(2).stats());
        let all = recorded(&snapshotter);
        assert_eq!(counter(&all, "corewheel_fired_total", "shard=0"), 105);
        assert_eq!(lateness(&all, "shard=0").last().unwrap().1, 105);
    });
}

#[test]
fn labels_tell_timers_apart() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        let timers = [("timeouts", 5), ("retries", 2)].map(|(name, pending)| {
            let (timer, _clock) = in_virtual_time();
            (0..pending).for_each(|_| _ = timer.schedule(SEC, || ()).unwrap());
            (timer, Exporter::with_labels(&[("timer", name), ("zone", "west")]))
        });
        let timers = timers.map(|(timer, mut exporter)| {
            exporter.export(&timer.stats());
            timer
        });
        let all = recorded(&snapshotter);
        assert_eq!(all.len(), 2 * (14 + BUCKETS));
        for (name, timer) in ["timeouts", "retries"].into_iter().zip(timers) {
            let labels = format!("timer={name},zone=west");
            let of_shard = format!("{labels},shard=0");
            assert_eq!(gauge(&all, "corewheel_pending", &of_shard), timer.len() as f64);
            assert_eq!(counter(&all, "corewheel_scheduled_total", &of_shard), timer.len() as u64);
            assert_eq!(counter(&all, "corewheel_extra_threads_needed_total", &labels), 0);
            assert_eq!(lateness(&all, &of_shard).len(), BUCKETS);
        }
    });
}
