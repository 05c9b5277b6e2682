//! The processor's counter: cheaper to read than the clock, and what the clock itself is made of.
//!
//! Where Linux names `tsc` as its clock source, `Instant::now` is computed from the time-stamp counter: the kernel's
//! part in it is to say how much time a count is, and since when. So whatever the counter does, that it stops in deep
//! sleep, that it runs faster with the processor, that two cores disagree, `Instant` does too, at the same time and on
//! the same core; and a kernel that sees it misbehave chooses another source. That is the one thing asked here. On
//! other systems, and with other sources, there is no counter.

use std::time::Instant;

/// A counter, and the clock it stands for.
pub(super) trait Source {
    /// Counts since some time. No other read of either made before this call comes after it, and none made after it
    /// comes before.
    fn counter(&self) -> u64;
    /// The present, as `Instant::now` tells it.
    fn instant(&self) -> Instant;
}

/// The time-stamp counter and `Instant::now`.
#[derive(Debug)]
pub(super) struct Processor(());

impl Processor {
    /// The counter, if the clock is made of it.
    pub(super) fn find() -> Option<Self> {
        tsc::is_the_clock().then_some(Self(()))
    }
}

impl Source for Processor {
    #[inline]
    fn counter(&self) -> u64 {
        tsc::read()
    }

    #[inline]
    fn instant(&self) -> Instant {
        Instant::now()
    }
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod tsc {
    use std::arch::x86_64::{_mm_lfence, _rdtsc};
    use std::fs;

    pub(super) fn is_the_clock() -> bool {
        let source = fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
        source.is_ok_and(|name| name.trim_end() == "tsc")
    }

    /// The fence is what keeps the processor from reading the counter before it has done all that comes before: a clock
    /// that the caller has just read may be waiting for a load from memory, a microsecond and more. What comes after is
    /// either a clock, which has a fence of its own, or needs none.
    #[inline]
    pub(super) fn read() -> u64 {
        // SAFETY: every x86_64 has both instructions; the counter is not forbidden to us where the clock, which the
        // process reads by itself, is made of it.
        unsafe {
            _mm_lfence();
            _rdtsc()
        }
    }
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod tsc {
    pub(super) fn is_the_clock() -> bool {
        false
    }

    pub(super) fn read() -> u64 {
        unreachable!("there is no counter here")
    }
}
