//! The memory of the process.

use std::fs;

/// Returns the resident memory of the process, on Linux.
pub fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = resident.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib << 10)
}
