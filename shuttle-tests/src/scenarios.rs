//! The scenarios. In each, callers do what comes to their mind, a driver and workers do what they have to, and time
//! passes; in the end every timer must be accounted for, and every entry be free.

mod errands;
mod job_queue;
mod stage;

use std::env;

use shuttle::sync::mpsc;

use crate::scene::{Scene, Tally};
use crate::shard::entry::Callback;
use crate::shard::memory::Cache;
use errands::{Sleeper, TimeoutUser};
use stage::Stage;

/// Has each of the schedules tried at random, and as many with few preemptions at chosen points.
fn explore(scenario: fn()) {
    let schedules = env::var("SHUTTLE_SCHEDULES").map_or(100, |number| number.parse().expect("a number of schedules"));
    shuttle::check_random(scenario, schedules);
    shuttle::check_pct(scenario, schedules, 3);
}

/// Callers schedule, cancel, move and let go of timers, while time passes.
#[test]
fn timeouts_in_a_passing_day() {
    explore(|| {
        let stage = Stage::new(Scene::new());
        let users = [(); 3].map(|()| stage.spawn(|stage| TimeoutUser::new(stage, |tally| tally.once()).spend(10)));
        let caches = stage.play(6, users);
        stage.assert_accounted(caches);
    });
}

/// The same with timers that repeat, and callers who wait for the end of a run.
#[test]
fn repeating_timers_in_a_passing_day() {
    explore(|| {
        let stage = Stage::new(Scene::new());
        let repeating = |stage: &Stage| TimeoutUser::new(stage, |tally| tally.repeating(1, 3)).spend(8);
        let users = [(); 2].map(|()| stage.spawn(repeating));
        let caches = stage.play(6, users);
        stage.assert_accounted(caches);
    });
}

/// The same while memory is given back to the system whenever it can be.
#[test]
fn memory_comes_and_goes() {
    explore(|| {
        let stage = Stage::new(Scene::with_spare(2));
        let users = [(); 3].map(|()| stage.spawn(|stage| TimeoutUser::new(stage, |tally| tally.once()).spend(10)));
        let caches = stage.play(4, users);
        stage.assert_accounted(caches);
    });
}

/// Everybody is in the middle of something when the shard is shut down.
#[test]
fn shutdown_in_the_middle_of_it() {
    explore(|| {
        let stage = Stage::new(Scene::new());
        let users = [true, true, false].map(|once| {
            let callback = move |tally: &Tally| if once { tally.once() } else { tally.repeating(1, 3) };
            stage.spawn(move |stage| TimeoutUser::new(stage, callback).spend(8))
        });
        let closer = stage.spawn(Stage::close);
        stage.play(4, users);
        closer.join().unwrap();
        stage.assert_closed();
    });
}

/// Futures that are polled by one task or another, moved, used again and dropped.
#[test]
fn sleeps_in_a_passing_day() {
    explore(|| {
        let stage = Stage::new(Scene::new());
        let users = [(); 3].map(|()| stage.spawn(|stage| Sleeper::new(stage).spend(8)));
        let caches = stage.play(6, users);
        stage.assert_free(caches);
    });
}

/// Time stands still, and each caller waits for what is due at once: a wake-up that is lost is a deadlock.
#[test]
fn nobody_waits_in_vain() {
    explore(|| {
        let stage = Stage::new(Scene::new());
        let users = [(); 3].map(|()| {
            stage.spawn(|stage| {
                let mut cache = Cache::new();
                for _ in 0..4 {
                    let (sender, receiver) = mpsc::channel();
                    let callback = Callback::once(move || sender.send(()).unwrap());
                    let handle = stage.scene.schedule(&mut cache, callback, 0).unwrap();
                    receiver.recv().unwrap();
                    stage.scene.release(handle, &mut cache);
                }
                cache
            })
        });
        let caches = stage.play(0, users);
        stage.assert_free(caches);
    });
}
