//! `Origin`: the instant from which a timer counts, and the system's clock in nanoseconds since then.
//!
//! A read of the system's clock into an integer takes less than one into an [`Instant`], and so does what follows. So
//! timers count in nanoseconds. An `Instant` does not tell its nanoseconds. [`Origin`] is one that is known to lie
//! between two readings.

use std::time::Instant;

use super::manual::ManualClock;

/// By how many nanoseconds the coarse clock may be behind.
pub(super) use system::STALENESS;

/// An instant of the system's clock, and readings just before and just after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    pub(super) instant: Instant,
    /// Nanoseconds of the reading after the instant.
    after: u64,
    /// Nanoseconds between the two readings: by how much [`elapsed`](Self::elapsed) may be too small.
    pub(super) uncertainty: u64,
}

impl Origin {
    /// Number of attempts to read the clock three times without an interruption.
    const ATTEMPTS: usize = 8;

    /// Returns the present of a virtual clock, or of the system's clock: of some attempts the one that is known best,
    /// to some 50 ns.
    pub(super) fn of(manual: Option<&ManualClock>) -> Self {
        match manual {
            None => {
                let attempts = (0..Self::ATTEMPTS).map(|_| Self::between(system::sandwich()));
                attempts.min_by_key(|origin| origin.uncertainty).expect("an attempt")
            }
            Some(clock) => Self::between((0, clock.now(), 0)),
        }
    }

    fn between((before, instant, after): (u64, Instant, u64)) -> Self {
        Self { instant, after, uncertainty: after - before }
    }

    /// Returns the nanoseconds since the instant, or up to the `uncertainty` less.
    #[inline(always)]
    pub(super) fn elapsed(&self) -> u64 {
        system::nanos(self.instant).saturating_sub(self.after)
    }

    /// As [`elapsed`](Self::elapsed), from a cheaper clock. Up to [`STALENESS`] less.
    #[inline(always)]
    pub(super) fn elapsed_coarse(&self) -> u64 {
        system::coarse_nanos(self.instant).saturating_sub(self.after)
    }
}

/// Reads a clock of the system, in nanoseconds.
#[cfg(any(target_os = "linux", target_os = "android", all(feature = "wall", target_vendor = "apple")))]
#[inline(always)]
pub(super) fn read(clock: libc::clockid_t) -> u64 {
    let mut time = std::mem::MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the pointer is valid for a write, because it comes from a local variable.
    unsafe { libc::clock_gettime(clock, time.as_mut_ptr()) };
    // SAFETY: the call has written it: it fails for an unknown clock or a bad pointer alone.
    let time = unsafe { time.assume_init() };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The clock of `Instant` on these systems, read into an integer.
#[cfg(any(target_os = "linux", target_os = "android"))]
mod system {
    use std::time::Instant;

    use super::read;

    /// The coarse clock is set at each tick of the system: each 10 ms or more often. A core that should do this may be
    /// stopped by a hypervisor. After 5 such ticks another one does it.
    pub(crate) const STALENESS: u64 = 100_000_000;

    /// Returns nanoseconds since the system's start.
    #[inline(always)]
    pub(super) fn nanos(_origin: Instant) -> u64 {
        read(libc::CLOCK_MONOTONIC)
    }

    /// As [`nanos`], but as of the system's last tick. Does not read the processor's counter, so it takes a quarter of
    /// the time, and waits for no earlier load.
    #[inline(always)]
    pub(super) fn coarse_nanos(_origin: Instant) -> u64 {
        read(libc::CLOCK_MONOTONIC_COARSE)
    }

    /// Returns the present, between readings before and after it.
    pub(super) fn sandwich() -> (u64, Instant, u64) {
        (read(libc::CLOCK_MONOTONIC), Instant::now(), read(libc::CLOCK_MONOTONIC))
    }
}

/// `Instant` itself.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod system {
    pub(super) use nanos as coarse_nanos;
    use std::time::Instant;

    /// There is one clock.
    pub(crate) const STALENESS: u64 = 0;

    /// Returns nanoseconds since `origin`, as far as 584 years.
    pub(super) fn nanos(origin: Instant) -> u64 {
        origin.elapsed().as_nanos() as u64
    }

    /// Returns the present, between readings before and after it.
    pub(super) fn sandwich() -> (u64, Instant, u64) {
        (0, Instant::now(), 0)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::clock::Ticks;

    const MS: Duration = Duration::from_millis(1);

    /// Returns an origin that is known to a millisecond only.
    fn wide() -> Origin {
        let (before, ..) = system::sandwich();
        thread::sleep(MS / 2);
        let (_, instant, _) = system::sandwich();
        thread::sleep(MS / 2);
        let (.., after) = system::sandwich();
        Origin::between((before, instant, after))
    }

    /// So both are the same clock.
    #[test]
    fn readings_agree_with_instants() {
        let origin = Origin::of(None);
        assert!(origin.uncertainty < 100_000, "{} ns", origin.uncertainty);
        agree(origin);
        agree(wide());
    }

    fn agree(origin: Origin) {
        for _ in 0..1000 {
            let before = origin.instant.elapsed().as_nanos() as u64;
            let elapsed = origin.elapsed();
            let after = origin.instant.elapsed().as_nanos() as u64;
            assert!(elapsed <= after, "{} ns ahead", elapsed - after);
            assert!(before <= elapsed + origin.uncertainty, "{} ns behind", before - elapsed);
            thread::sleep(Duration::from_micros(20));
        }
    }

    #[test]
    fn a_delay_counts_from_the_call_however_well_the_origin_is_known() {
        for origin in [Origin::of(None), wide()] {
            let mut ticks = Ticks::new(None, MS);
            ticks.origin = origin;
            let before = Instant::now();
            let deadline = ticks.after(MS * 10);
            assert!(ticks.display_deadline(deadline.tick, deadline.exact) >= before + MS * 10);
        }
    }
}
