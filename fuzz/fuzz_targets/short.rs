//! Random programs for timers in virtual time, checked against an oracle, in a process that is short of threads and
//! memory. Some timers are refused with `BuildError::ThreadStart`, and some callbacks with
//! `ScheduleErrorKind::OutOfMemory`.
//!
//! The target limits the address space of the process. So it is built without a sanitizer, which needs a large one.
//! Linux only.

#![no_main]

#[path = "../../tests/common/address_space.rs"]
mod address_space;
#[path = "../../tests/common/mod.rs"]
mod common;
#[path = "../../tests/properties/program/mod.rs"]
mod program;

use std::hint::black_box;

use address_space::{STACK, limit_memory_to, limit_segments_to, limit_threads_to};
use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use program::{Program, Resource, Shortage, run_with_shortage};

#[derive(Arbitrary, Debug)]
struct Input {
    /// Number of threads that each timer can start.
    threads: u8,
    /// Number of segments of the smallest size that timers can allocate in each step.
    segments: u8,
    program: Program,
}

/// More bytes than a step allocates for anything but timers.
const HEAP: usize = 32 << 20;

/// Sets the size of stacks, and makes the heap retain freed memory.
fn set_up() {
    // SAFETY: no other thread reads the environment, because none has been started yet.
    unsafe { std::env::set_var("RUST_MIN_STACK", STACK.to_string()) };
    for (option, value) in [
        (libc::M_ARENA_MAX, 1),
        (libc::M_MMAP_MAX, 0),
        (libc::M_TOP_PAD, 2 * HEAP as i32),
        (libc::M_TRIM_THRESHOLD, 1_000_000_000),
    ] {
        // SAFETY: `mallopt` only sets an option of the allocator.
        assert_eq!(unsafe { libc::mallopt(option, value) }, 1);
    }
}

fuzz_target!(init: set_up(), |input: Input| {
    let (threads, segments) = (u64::from(input.threads % 8), u64::from(input.segments % 4));
    let limit = move |resource: Option<Resource>| {
        let Some(resource) = resource else { return limit_memory_to(None) };
        // Grow the heap now, so that it need not grow while the address space is limited.
        drop(black_box(Vec::<u8>::with_capacity(HEAP)));
        match resource {
            Resource::Threads => limit_threads_to(threads),
            Resource::Memory => limit_segments_to(segments),
        }
    };
    run_with_shortage(&input.program, Shortage::new(limit));
});
