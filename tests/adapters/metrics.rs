//! What the adapter reports to a recorder of the `metrics` facade.

#[path = "../common/mod.rs"]
mod common;

use std::collections::BTreeMap;

use common::*;
use corewheel::metrics::Exporter;
use corewheel::{Executor, Timer};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};

/// Returns all recorded values, by name and shard.
fn recorded(snapshotter: &Snapshotter) -> BTreeMap<(String, String), DebugValue> {
    let all = snapshotter.snapshot().into_vec().into_iter();
    all.map(|(key, _, _, value)| {
        let shard = key.key().labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        ((key.key().name().to_owned(), shard), value)
    })
    .collect()
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
        assert_eq!(all.len(), 14, "{all:?}");
        let mut value = |name: &str| all.remove(&(name.to_owned(), "shard=0".to_owned())).unwrap();
        for (name, count) in [("scheduled", 6), ("fired", 5), ("completed", 5), ("rearmed", 1), ("cancelled", 0)] {
            assert_eq!(value(&format!("corewheel_{name}_total")), DebugValue::Counter(count), "{name}");
        }
        assert_eq!(value("corewheel_pending"), DebugValue::Gauge(1.0.into()));
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
        let (gate, (sender, receiver)) = (Gate::default(), channel());
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

#[test]
fn the_lateness_of_each_run_is_recorded_once() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        let timer = Timer::builder().shards(2).build().unwrap();
        let mut exporter = Exporter::new();
        let mut samples = 0;
        for round in 1..=3 {
            for _ in 0..10 {
                timer.schedule(MS, || ()).unwrap();
            }
            eventually("all timers have fired", || timer.stats().completed == 10 * round);
            exporter.export(&timer.stats());
            for ((name, _), value) in recorded(&snapshotter) {
                if let ("corewheel_lateness_seconds", DebugValue::Histogram(values)) = (name.as_str(), value) {
                    assert!(values.iter().all(|late| (0.0..20.0).contains(&late.into_inner())));
                    samples += values.len() as u64;
                }
            }
            assert_eq!(samples, 10 * round);
        }
    });
}
