//! Programs for a `Timer` in virtual time against their oracle, in a process that runs short of threads and memory: some
//! timers are refused with `BuildError::ThreadStart`, and some callbacks with `ScheduleError::OutOfMemory`.
//!
//! The process runs short by a limit of its address space, so this target runs without a sanitizer, which needs the address
//! space. Linux.

#![no_main]

#[path = "../../tests/common/address_space.rs"]
mod address_space;
#[path = "../../tests/common/mod.rs"]
mod common;
#[path = "../../tests/program/mod.rs"]
mod program;

use std::hint::black_box;

use address_space::{STACK, limit_memory_to, limit_segments_to, limit_threads_to};
use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use program::{Lack, Program, Shortage, play_short};

#[derive(Arbitrary, Debug)]
struct Input {
    /// How many may be started for each timer.
    threads: u8,
    /// How many of the smallest size timers may have in each step.
    segments: u8,
    program: Program,
}

/// More than a step allocates for anything but timers.
const HEAP: usize = 32 << 20;

/// Sets the size of stacks, and has the heap keep what is freed.
fn set_up() {
    // SAFETY: no thread has been started yet that might read the environment.
    unsafe { std::env::set_var("RUST_MIN_STACK", STACK.to_string()) };
    for (option, value) in [
        (libc::M_ARENA_MAX, 1),
        (libc::M_MMAP_MAX, 0),
        (libc::M_TOP_PAD, 2 * HEAP as i32),
        (libc::M_TRIM_THRESHOLD, 1_000_000_000),
    ] {
        // SAFETY: it sets a number.
        assert_eq!(unsafe { libc::mallopt(option, value) }, 1);
    }
}

fuzz_target!(init: set_up(), |input: Input| {
    let (threads, segments) = (u64::from(input.threads % 8), u64::from(input.segments % 4));
    let limit = move |lack: Option<Lack>| {
        let Some(lack) = lack else { return limit_memory_to(None) };
        // The heap need not grow while the address space is limited.
        drop(black_box(Vec::<u8>::with_capacity(HEAP)));
        match lack {
            Lack::OfThreads => limit_threads_to(threads),
            Lack::OfMemory => limit_segments_to(segments),
        }
    };
    play_short(&input.program, Shortage::new(limit));
});
