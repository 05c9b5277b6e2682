//! Statistics of this process and of the machine, from the system.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::utsname::uname;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{SysconfVar, sysconf};

/// Returns the processor time of all threads of this process.
pub fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("the system has the clock").into()
}

/// Returns the number of context switches, voluntary or not, of all threads of this process but the calling one.
pub fn context_switches() -> i64 {
    let of = |who| {
        let usage = getrusage(who).expect("the system counts context switches");
        usage.voluntary_context_switches() + usage.involuntary_context_switches()
    };
    of(UsageWho::RUSAGE_SELF) - of(UsageWho::RUSAGE_THREAD)
}

/// Returns the number of threads of this process.
pub fn threads() -> usize {
    fs::read_dir("/proc/self/task").expect("Linux has /proc").count()
}

/// Returns the resident memory of this process.
pub fn resident_bytes() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").expect("Linux has /proc");
    let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("resident pages");
    let page = sysconf(SysconfVar::PAGE_SIZE).ok().flatten().expect("pages have a size");
    pages * page as u64
}

/// Returns the memory that is available without swapping; 0 if unknown.
pub fn available_bytes() -> u64 {
    let kilobytes = proc_field("/proc/meminfo", "MemAvailable");
    kilobytes.and_then(|value| value.trim_end_matches(" kB").parse().ok()).map_or(0, |kilobytes: u64| kilobytes * 1024)
}

/// Describes the machine.
pub fn machine() -> String {
    let cpu = proc_field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown processor".into());
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let kernel = uname().map_or_else(|_| "unknown".into(), |name| name.release().to_string_lossy().into_owned());
    let memory = available_bytes() >> 30;
    format!(
        "{cpu}, {cores} cores, {memory} GiB of memory available, Linux {kernel}, {}",
        output("rustc", &["--version"])
    )
}

/// Returns the date of today in UTC.
pub fn date() -> String {
    output("date", &["--utc", "+%Y-%m-%d"])
}

/// Returns the last commit that changed the measured source, in the repository that contains this directory.
pub fn commit(directory: &Path) -> String {
    let directory = directory.to_string_lossy();
    let commit = output("git", &["-C", &directory, "log", "-1", "--format=%h", "--", ":/src"]);
    if commit.is_empty() { "unknown".into() } else { commit }
}

fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map_or_else(|_| format!("unknown {program}"), |it| String::from_utf8_lossy(&it.stdout).trim().to_owned())
}

fn proc_field(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'))?;
    Some(value.trim().to_owned())
}
