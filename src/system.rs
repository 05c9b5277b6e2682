//! What is asked of the operating system directly.

/// How many threads can run at once, as far as the system tells.
pub(crate) fn parallelism() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// The size of a page of memory.
#[cfg(target_os = "linux")]
pub(crate) fn page_size() -> usize {
    // SAFETY: it only asks for a number.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).expect("a page has a size")
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
