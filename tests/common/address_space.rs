//! Limits of the process's address space, which make it run short of memory and threads.

#![allow(dead_code, reason = "each test file uses only some of it")]

use std::fs;

use rlimit::Resource;

/// The stack of each thread, in bytes, in tests that run short of threads. It is so large that the remainder of a limit
/// is too small for one more thread, but suffices for everything else.
pub const STACK: u64 = 1_000_000_000;

/// A prefix for the shell that starts a process. With these signals ignored, the standard library maps no signal stack
/// in each new thread. Without memory for that, a new thread would abort the process.
pub const WITHOUT_SIGNAL_STACKS: &str = "trap '' SEGV BUS;";

/// Returns the size of this process's address space, in bytes.
fn address_space() -> u64 {
    let pages = fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').next().unwrap().parse::<u64>().unwrap() * 4096
}

/// Lets the address space grow by at most `more` bytes. `None` removes the limit.
pub fn limit_memory_to(more: Option<u64>) {
    let hard = rlimit::getrlimit(Resource::AS).unwrap().1;
    let limit = more.map_or(hard, |more| address_space() + more);
    rlimit::setrlimit(Resource::AS, limit, hard).unwrap();
}

/// Lets the process start `more` threads, each with a stack of [`STACK`] bytes.
pub fn limit_threads_to(more: u64) {
    limit_memory_to(Some(more * (STACK + 10_000_000) + 600_000_000));
}

/// Lets timers allocate `more` segments of the smallest size.
pub fn limit_segments_to(more: u64) {
    limit_memory_to(Some(more * 70_000));
}
