//! The limit of a process's address space, by which it runs short of memory and threads.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::fs;

use rlimit::Resource;

/// The stack of each thread, in bytes, where threads are to run short: so large that the remainder of a limit, too small
/// for one more thread, suffices for everything else.
pub const STACK: u64 = 1_000_000_000;

/// For the shell that starts a process: with these signals ignored, the standard library maps no stack for them in each
/// new thread. A thread that begins while memory is short would end the process for lack of it.
pub const WITHOUT_SIGNAL_STACKS: &str = "trap '' SEGV BUS;";

/// The size of this process's address space, in bytes.
fn address_space() -> u64 {
    let pages = fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').next().unwrap().parse::<u64>().unwrap() * 4096
}

/// Lets the process have so many bytes more of address space than it has. `None`: any number, again.
pub fn limit_memory_to(more: Option<u64>) {
    let hard = rlimit::getrlimit(Resource::AS).unwrap().1;
    let limit = more.map_or(hard, |more| address_space() + more);
    rlimit::setrlimit(Resource::AS, limit, hard).unwrap();
}

/// Lets the process start so many threads more, each with a stack of [`STACK`].
pub fn limit_threads_to(more: u64) {
    limit_memory_to(Some(more * (STACK + 10_000_000) + 600_000_000));
}

/// Lets timers have so many segments of memory more, each of the smallest size.
pub fn limit_segments_to(more: u64) {
    limit_memory_to(Some(more * 70_000));
}
