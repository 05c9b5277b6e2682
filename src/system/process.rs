//! The child of a `fork` has none of its parent's threads, and sees it here, by a load of a word that is hardly ever
//! written: asking for the number of the process would be a system call.

pub(crate) use imp::Process;

#[cfg(target_os = "linux")]
mod imp {
    use std::sync::Once;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// How many forks lie between this process and the first that asked.
    static FORKS: AtomicU32 = AtomicU32::new(0);

    /// The process in which something was made.
    #[derive(Clone, Copy)]
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
        pub(crate) fn is_gone(self) -> bool {
            // Relaxed: it is written before the child's only thread goes on.
            FORKS.load(Ordering::Relaxed) != self.0
        }
    }

    extern "C" fn forked() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    #[derive(Clone, Copy)]
    pub(crate) struct Process(());

    impl Process {
        pub(crate) fn this() -> Self {
            Self(())
        }

        #[inline]
        pub(crate) fn is_gone(self) -> bool {
            false
        }
    }
}
