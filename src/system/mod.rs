//! What is asked of the operating system directly.

mod pages;
mod process;

pub(crate) use pages::Pages;
pub(crate) use process::Process;

/// How many threads can run at once, as far as the system tells.
pub(crate) fn parallelism() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Lets the calling thread wake when its time has come, where the system would otherwise have it sleep some 50 µs
/// longer, to wake several together. Best effort.
pub(crate) fn wake_on_time() {
    #[cfg(target_os = "linux")]
    {
        const SLACK: libc::c_ulong = 1; // ns
        // SAFETY: it sets a number of the calling thread.
        let _ = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, SLACK) };
    }
}
