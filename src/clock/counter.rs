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
        Self::behind(&tsc::clock_source()?)
    }

    /// Returns the counter, if this source of the clock is made of it.
    fn behind(clock_source: &str) -> Option<Self> {
        (clock_source == "tsc" && tsc::can_be_read_in_order()).then_some(Self(()))
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

    /// The name of what the system makes its clock of.
    pub(super) fn clock_source() -> Option<String> {
        let source = fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
        source.ok().map(|name| name.trim_end().to_owned())
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

    pub(super) fn clock_source() -> Option<String> {
        None
    }

    pub(super) fn read_unordered() -> u64 {
        unreachable!("there is no counter here")
    }

    pub(super) fn read_ordered() -> u64 {
        unreachable!("there is no counter here")
    }
}

#[cfg(all(test, target_os = "linux", target_arch = "x86_64"))]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;

    /// Whether the kernel says this of the processor.
    fn is_said(flag: &str) -> bool {
        let processors = fs::read_to_string("/proc/cpuinfo").unwrap();
        let flags = processors.lines().find(|line| line.starts_with("flags")).unwrap();
        flags.split_whitespace().any(|said| said == flag)
    }

    #[test]
    fn the_processor_is_what_the_kernel_says() {
        assert_eq!(tsc::is_invariant(), is_said("nonstop_tsc"));
        assert_eq!(tsc::can_be_read_in_order(), is_said("rdtscp"));
    }

    #[test]
    fn the_counter_is_used_where_the_clock_is_made_of_it() {
        assert_eq!(Processor::behind("tsc").is_some(), is_said("rdtscp"));
        for other in ["", "tsc-early", "hpet", "acpi_pm", "kvm-clock", "hyperv_clocksource_tsc_page"] {
            assert!(Processor::behind(other).is_none(), "{other}");
        }
        let source = fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
        assert_eq!(Processor::find().is_some(), source.is_ok_and(|source| source == "tsc\n") && is_said("rdtscp"));
    }

    /// Of two reads, ordered or not, the one that comes a millisecond later finds more counts; the clock agrees.
    #[test]
    fn the_counter_and_the_clock_go_on() {
        let Some(processor) = Processor::find() else { return };
        let read: [&dyn Fn() -> u64; 2] = [&|| processor.read_ordered(), &|| processor.read_unordered()];
        for (first, second) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let (counts, began, said) = (read[first](), Instant::now(), processor.instant());
            while began.elapsed() < Duration::from_millis(1) {}
            assert!(read[second]() > counts);
            assert!(said >= began && processor.instant() - said >= Duration::from_millis(1));
        }
    }
}
