//! The clocks that jump: the time of day, and time that counts a suspend; on the system, and in virtual time.
//!
//! `Instant` on Linux and macOS stands still while the machine is suspended. So time that counts a suspend is another
//! clock there. On Windows `Instant` counts it. Of the remaining systems that is unknown, and `Instant` is used.

use std::sync::{Mutex, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::Ticks;

/// Readings of both clocks, in nanoseconds: of the time of day since the epoch, and of time that counts a suspend since an
/// arbitrary instant.
pub(crate) type Readings = [i128; 2];

pub(crate) const TIME_OF_DAY: usize = 0;
pub(crate) const COUNTING_SUSPEND: usize = 1;

impl Ticks {
    pub(crate) fn read_jumping(&self) -> Readings {
        if let Some(clock) = &self.manual {
            return clock.read_jumping();
        }
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let counting_suspend = super::origin::read(libc::CLOCK_BOOTTIME).into();
        #[cfg(target_vendor = "apple")]
        let counting_suspend = super::origin::read(libc::CLOCK_MONOTONIC_RAW).into();
        #[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
        let counting_suspend = self.origin.instant.elapsed().as_nanos() as i128;
        [nanos_since_epoch(SystemTime::now()), counting_suspend]
    }

    /// Returns the time of day. One of virtual time that no `SystemTime` represents is that of the epoch.
    pub(crate) fn time_of_day(&self) -> SystemTime {
        let [nanos, _] = self.read_jumping();
        let from_epoch = super::duration_of(nanos.unsigned_abs());
        let time = if nanos < 0 { UNIX_EPOCH.checked_sub(from_epoch) } else { UNIX_EPOCH.checked_add(from_epoch) };
        time.unwrap_or(UNIX_EPOCH)
    }
}

/// Returns the nanoseconds from the epoch to `time`, negative before it.
pub(crate) fn nanos_since_epoch(time: SystemTime) -> i128 {
    let nanos = |duration: Duration| duration.as_nanos() as i128;
    time.duration_since(UNIX_EPOCH).map_or_else(|before| -nanos(before.duration()), nanos)
}

/// What a manual clock calls when one of its clocks has jumped.
pub(crate) trait OnJump: Send + Sync {
    fn clock_has_jumped(&self);
}

/// The clocks of a manual clock that jump.
pub(super) struct Jumps {
    /// By how much they are ahead of the time by which the manual clock was advanced.
    pub(super) ahead: Mutex<Readings>,
    pub(super) listeners: Mutex<Vec<Weak<dyn OnJump>>>,
}

impl Jumps {
    pub(super) fn new() -> Self {
        Self { ahead: Mutex::new([nanos_since_epoch(SystemTime::now()), 0]), listeners: Mutex::default() }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn time_that_counts_a_suspend_is_the_time_since_the_system_s_start() {
        let ticks = Ticks::new(None, Duration::from_millis(1));
        let [_, nanos] = ticks.read_jumping();
        let uptime = fs::read_to_string("/proc/uptime").unwrap();
        let uptime: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
        assert!((nanos as f64 / 1e9 - uptime).abs() < 1.0, "{nanos} ns, {uptime} s");
        std::thread::sleep(Duration::from_millis(2));
        assert!(ticks.read_jumping()[COUNTING_SUSPEND] >= nanos + 2_000_000);
    }

    #[test]
    fn the_time_of_day_is_that_of_the_system() {
        let before = SystemTime::now();
        let time = Ticks::new(None, Duration::from_millis(1)).time_of_day();
        assert!(before <= time && time <= SystemTime::now());
    }
}
