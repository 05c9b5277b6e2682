//! The clocks that jump: the time of day, and time that counts a suspend. Their readings, and those of virtual time.

use std::sync::{Mutex, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Readings of both clocks, in nanoseconds: of the time of day since the epoch, and of time that counts a suspend since an
/// arbitrary instant.
pub(crate) type Readings = [i128; 2];

pub(crate) const TIME_OF_DAY: usize = 0;
pub(crate) const COUNTING_SUSPEND: usize = 1;

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
