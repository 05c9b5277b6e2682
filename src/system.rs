//! What is asked of the operating system directly.

pub(crate) use process::Process;

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

/// The child of a `fork` has none of its parent's threads, and sees it here, by a load of a word that is hardly ever
/// written: asking for the number of the process would be a system call.
#[cfg(target_os = "linux")]
mod process {
    use std::sync::Once;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// How many forks lie between this process and the first that asked.
    static FORKS: AtomicU32 = AtomicU32::new(0);

    /// The process in which something was made.
    pub(crate) struct Process(u32);

    impl Process {
        pub(crate) fn this() -> Self {
            static WATCHED: Once = Once::new();
            // SAFETY: the function given may be called in the child of a fork: it only adds to an atomic.
            WATCHED.call_once(|| _ = unsafe { libc::pthread_atfork(None, None, Some(forked)) });
            Self(FORKS.load(Ordering::Relaxed))
        }

        /// Whether this is another one.
        #[inline]
        pub(crate) fn is_gone(&self) -> bool {
            // Relaxed: it is written before the child's only thread goes on.
            FORKS.load(Ordering::Relaxed) != self.0
        }
    }

    extern "C" fn forked() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(not(target_os = "linux"))]
mod process {
    pub(crate) struct Process(());

    impl Process {
        pub(crate) fn this() -> Self {
            Self(())
        }

        pub(crate) fn is_gone(&self) -> bool {
            false
        }
    }
}
