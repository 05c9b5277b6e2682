//! The processor's time-stamp counter: cheaper to read than the clock that is computed from it.
//!
//! Where Linux names `tsc` as its clock source, `Instant::now` is computed from this counter. The kernel only supplies
//! the time per cycle, and a start. The crate requires two properties of the processor:
//!
//! - **The counter is invariant.** "The invariant TSC will run at a constant rate in all ACPI P-, C-, and T-states"
//!   (Intel's manual, volume 3, "Invariant TSC"; AMD's has the same as `TscInvariant`). So it runs while a thread waits
//!   and while a core is idle, however deep the core sleeps. In the remaining states the whole machine sleeps, and the
//!   clock stands still, too.
//! - **It can be read in order.** `rdtscp` "does wait until all previous instructions have executed and all previous
//!   loads are globally visible" (volume 2, "RDTSCP"). So a thread that has read the clock, or has synchronised with a
//!   thread that has, reads the counter no earlier than that clock read.
//!
//! `rdtsc` costs half as much, but "does not necessarily wait", and no manual bounds how early it may execute. So it
//! serves only where an early value does no harm.
//!
//! The crate relies on the kernel for the agreement of the counters of two cores: the kernel compares them, and chooses
//! another clock source if they differ. With other sources, and on other systems, the crate uses no counter.

use std::time::Instant;

/// A counter, and the clock that is computed from it.
pub(super) trait Source {
    /// Returns whether the counter runs while its processor is idle.
    fn is_invariant(&self) -> bool;
    /// Reads the counter. The read executes after everything that precedes it in the program, like a read of the clock.
    fn read_ordered(&self) -> u64;
    /// Like [`read_ordered`](Self::read_ordered), but cheaper and unordered: the read may execute early.
    fn read_unordered(&self) -> u64;
    /// Reads the clock, `Instant::now`.
    fn instant(&self) -> Instant;
}

/// The time-stamp counter and `Instant::now`.
#[derive(Debug)]
pub(super) struct Processor(());

impl Processor {
    /// Returns the counter, if the system's clock is computed from it.
    pub(super) fn find() -> Option<Self> {
        Self::for_clock_source(&tsc::clock_source()?)
    }

    /// Returns the counter, if this clock source is the counter.
    fn for_clock_source(clock_source: &str) -> Option<Self> {
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

    /// Returns whether CPUID sets this bit of EDX in this leaf.
    #[allow(unused_unsafe, reason = "later compilers know that every x86_64 has the instruction")]
    fn has_feature(leaf: u32, bit: u32) -> bool {
        const LEAVES: u32 = 0x8000_0000;
        // SAFETY: every x86_64 has the instruction, and we read a leaf only if the processor reports that it has it.
        unsafe { __cpuid(LEAVES).eax >= leaf && __cpuid(leaf).edx & 1 << bit != 0 }
    }

    pub(super) fn is_invariant() -> bool {
        has_feature(0x8000_0007, 8)
    }

    pub(super) fn can_be_read_in_order() -> bool {
        has_feature(0x8000_0001, 27)
    }

    /// Returns the name of the system's clock source.
    pub(super) fn clock_source() -> Option<String> {
        let source = fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
        source.ok().map(|name| name.trim_end().to_owned())
    }

    #[inline]
    pub(super) fn read_unordered() -> u64 {
        // SAFETY: every x86_64 has the instruction, and we may execute it, because `Processor::find` has checked that
        // the clock is computed from it.
        unsafe { _rdtsc() }
    }

    #[inline]
    pub(super) fn read_ordered() -> u64 {
        let mut core = 0;
        // SAFETY: `Processor::find` has checked that the processor has the instruction, and that the clock is computed
        // from its counter.
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

    /// Returns whether the kernel reports this feature of the processor.
    fn kernel_reports(flag: &str) -> bool {
        let processors = fs::read_to_string("/proc/cpuinfo").unwrap();
        let flags = processors.lines().find(|line| line.starts_with("flags")).unwrap();
        flags.split_whitespace().any(|reported| reported == flag)
    }

    #[test]
    fn the_processor_has_what_the_kernel_reports() {
        assert_eq!(tsc::is_invariant(), kernel_reports("nonstop_tsc"));
        assert_eq!(tsc::can_be_read_in_order(), kernel_reports("rdtscp"));
    }

    #[test]
    fn the_counter_is_used_where_it_is_the_clock_source() {
        assert_eq!(Processor::for_clock_source("tsc").is_some(), kernel_reports("rdtscp"));
        for other in ["", "tsc-early", "hpet", "acpi_pm", "kvm-clock", "hyperv_clocksource_tsc_page"] {
            assert!(Processor::for_clock_source(other).is_none(), "{other}");
        }
        let source = fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
        assert_eq!(
            Processor::find().is_some(),
            source.is_ok_and(|source| source == "tsc\n") && kernel_reports("rdtscp")
        );
    }

    /// Of two reads, ordered or not, the one a millisecond later returns more cycles. The clock agrees.
    #[test]
    fn the_counter_and_the_clock_advance() {
        let Some(processor) = Processor::find() else { return };
        let read: [&dyn Fn() -> u64; 2] = [&|| processor.read_ordered(), &|| processor.read_unordered()];
        for (first, second) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let (cycles, began, first_instant) = (read[first](), Instant::now(), processor.instant());
            while first_instant.elapsed() < Duration::from_millis(1) {}
            assert!(read[second]() > cycles);
            assert!(first_instant >= began && processor.instant() - first_instant >= Duration::from_millis(1));
        }
    }
}
