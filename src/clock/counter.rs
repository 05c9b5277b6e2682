//! The processor's counter: cheaper to read than the clock, and what the clock itself is made of.
//!
//! Where Linux names `tsc` as its clock source, `Instant::now` is computed from the time-stamp counter: the kernel's
//! part in it is to say how much time a count is, and since when. Two things are asked of the processor itself:
//!
//! - **The counter is invariant.** "The invariant TSC will run at a constant rate in all ACPI P-, C-, and T-states"
//!   (Intel's manual, volume 3, "Invariant TSC"; AMD's has the same as `TscInvariant`). So it stands in no pause of a
//!   thread or a core, however deep the core sleeps. In the states that are left, in which the whole machine sleeps,
//!   the clock stands, too.
//! - **It can be read in order.** `rdtscp` "does wait until all previous instructions have executed and all previous
//!   loads are globally visible" (volume 2, "RDTSCP"). So when a thread has read the clock, or has heard from a thread
//!   that has read it, and reads the counter next, the counter has not been read before the clock. `rdtsc`, at half the
//!   price, "does not necessarily wait", and no manual says how long before its turn it may be executed. It is good for
//!   what need not be later than anything.
//!
//! That two cores agree on their counters is what the kernel relies on as well: it compares them, and chooses another
//! source if they do not. On other systems, and with other sources, there is no counter.

use std::time::Instant;

/// A counter, and the clock it stands for.
pub(super) trait Source {
    /// Whether it runs on while its processor is idle.
    fn is_invariant(&self) -> bool;
    /// Counts since some time. Like the clock, it is read after all that comes before in the program.
    fn read_ordered(&self) -> u64;
    /// The same, cheaper, but it may be read somewhat before its turn.
    fn read_unordered(&self) -> u64;
    /// The present, as `Instant::now` tells it.
    fn instant(&self) -> Instant;
}

/// The time-stamp counter and `Instant::now`.
#[derive(Debug)]
pub(super) struct Processor(());

impl Processor {
    /// Returns the counter, if the clock is made of it.
    pub(super) fn find() -> Option<Self> {
        (tsc::can_be_read_in_order() && tsc::is_the_clock()).then_some(Self(()))
    }
}

impl Source for Processor {
    fn is_invariant(&self) -> bool {
        tsc::is_invariant()
    }

    #[inline]
    fn read_ordered(&self) -> u64 {
        tsc::read_ordered()
    }

    #[inline]
    fn read_unordered(&self) -> u64 {
        tsc::read_unordered()
    }

    #[inline]
    fn instant(&self) -> Instant {
        Instant::now()
    }
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod tsc {
    use std::arch::x86_64::{__cpuid, __rdtscp, _rdtsc};
    use std::fs;

    /// Whether the bit `bit` of EDX is set in this leaf of the processor's description.
    #[allow(unused_unsafe, reason = "later compilers know that every x86_64 has the instruction")]
    fn describes(leaf: u32, bit: u32) -> bool {
        const LEAVES: u32 = 0x8000_0000;
        // SAFETY: every x86_64 has the instruction. A leaf is asked for only if it is said to be there.
        unsafe { __cpuid(LEAVES).eax >= leaf && __cpuid(leaf).edx & 1 << bit != 0 }
    }

    pub(super) fn is_invariant() -> bool {
        describes(0x8000_0007, 8)
    }

    pub(super) fn can_be_read_in_order() -> bool {
        describes(0x8000_0001, 27)
    }

    pub(super) fn is_the_clock() -> bool {
        let source = fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
        source.is_ok_and(|name| name.trim_end() == "tsc")
    }

    #[inline]
    pub(super) fn read_unordered() -> u64 {
        // SAFETY: every x86_64 has the instruction; and the process may use it where it reads the clock by it.
        unsafe { _rdtsc() }
    }

    #[inline]
    pub(super) fn read_ordered() -> u64 {
        let mut core = 0;
        // SAFETY: `Processor::find` has seen that there is the instruction; and the rest is as above.
        unsafe { __rdtscp(&mut core) }
    }
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod tsc {
    pub(super) fn is_invariant() -> bool {
        false
    }

    pub(super) fn can_be_read_in_order() -> bool {
        false
    }

    pub(super) fn is_the_clock() -> bool {
        false
    }

    pub(super) fn read_unordered() -> u64 {
        unreachable!("there is no counter here")
    }

    pub(super) fn read_ordered() -> u64 {
        unreachable!("there is no counter here")
    }
}
