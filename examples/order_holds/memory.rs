//! The memory of the process.

use std::fs;

use nix::unistd::{SysconfVar, sysconf};

/// Returns the resident memory of the process, on Linux.
pub fn resident_bytes() -> Option<u64> {
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
    let page = sysconf(SysconfVar::PAGE_SIZE).ok()??;
    Some(pages * page as u64)
}
