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
    /// Counts since some time. Like the clock, it is read after all that comes before in the program.
    fn counter(&self) -> u64;
    /// The same for half the price, but it may be read somewhat before its turn: by so much as the processor looks
    /// ahead, see [`LOOKAHEAD`].
    fn glance(&self) -> u64;
    /// The present, as `Instant::now` tells it.
    fn instant(&self) -> Instant;
}

/// Nanoseconds by which a glance may be early.
///
/// A processor looks a few hundred instructions ahead (the largest, 512), and reads the counter as soon as it sees that
/// it is to be read. If before that the program has read the clock, or a time that another thread left, and that is
/// still waiting for what comes from memory, the counter is read earlier than that by the time all this takes. For
/// 10 µs of it, some hundred loads would have to wait for each other within these few hundred instructions, and no branch
/// be mistaken, no page be missing and no interrupt come in between, as each of these makes the processor look again.
pub(super) const LOOKAHEAD: u64 = 10_000;

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
    fn counter(&self) -> u64 {
        tsc::read_in_turn()
    }

    #[inline]
    fn glance(&self) -> u64 {
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

    #[inline]
    pub(super) fn read() -> u64 {
        // SAFETY: every x86_64 has the instruction; and the process may use it where it reads the clock by it.
        unsafe { _rdtsc() }
    }

    pub(super) fn read_in_turn() -> u64 {
        // SAFETY: every x86_64 has it. It waits for all instructions before, and lets none after begin.
        unsafe { _mm_lfence() }
        read()
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

    pub(super) fn read_in_turn() -> u64 {
        read()
    }
}
