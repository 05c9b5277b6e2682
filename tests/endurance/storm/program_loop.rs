//! A loop of the program's that drives a shard of the timer's, and now and then gives it back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use corewheel::{Driver, Timer};
use fastrand::Rng;

/// Pause before a loop that has found no free driver looks again.
const PAUSE: Duration = Duration::from_millis(1);
/// A loop gives its shard back after this number of turns, at most.
const TURNS: u32 = 200;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Drives shards of the timer until `over`.
pub fn run(timer: &Timer, over: &AtomicBool, mut random: Rng) {
    while !over.load(Ordering::Relaxed) {
        // Each thread has its home in another shard.
        let mut random = random.fork();
        let drives = || match timer.take_driver() {
            Some(driver) => drive(driver, over, &mut random),
            None => thread::sleep(PAUSE),
        };
        thread::scope(|scope| _ = scope.spawn(drives).join());
    }
}

fn drive(mut driver: Driver, over: &AtomicBool, random: &mut Rng) {
    driver.set_waker(&Waker::from(Arc::new(Unpark(thread::current()))));
    for _ in 0..random.u32(..TURNS) {
        driver.drive();
        let next = driver.next_wakeup();
        if over.load(Ordering::Relaxed) || driver.is_shutdown() {
            break;
        }
        match next {
            Some(at) => thread::park_timeout(at.saturating_duration_since(Instant::now())),
            None => thread::park(),
        }
    }
    if random.bool() {
        // On another thread, and there without a wait.
        thread::spawn(|| drop(driver));
    }
}
