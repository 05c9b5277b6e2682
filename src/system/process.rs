//! Detects that the process is the child of a `fork`, which has none of its parent's threads.
//!
//! On Linux, a handler of `pthread_atfork` counts the forks. A check is one load of that count, which is hardly ever
//! written. To ask for the process id instead would be a system call. On other systems, forks are not detected.
//!
//! The doors of the crate check, once a call: a service, a handle, a future, a queue, a job, a `Driver` and a manual
//! clock. No code below them knows of forks. So the child of a fork inside of code that the crate calls must not return
//! to the crate.

use std::sync::atomic::{AtomicU32, Ordering};

/// Number of forks between the process that registered the handler and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Identifies a process among those that descend from each other by `fork`.
#[derive(Clone, Copy)]
pub(crate) struct Process(u32);

impl Process {
    /// Returns the calling process.
    pub(crate) fn current() -> Self {
        #[cfg(target_os = "linux")]
        count_forks();
        Self(FORKS.load(Ordering::Relaxed))
    }

    /// Returns the count of forks, which is greater in a child than in its parent.
    pub(crate) fn forks(self) -> usize {
        self.0 as usize
    }

    /// Whether the calling process is another one: a child by `fork`.
    #[inline]
    pub(crate) fn has_forked(self) -> bool {
        // Relaxed: the child's only thread writes the count before it returns from `fork`.
        cfg!(target_os = "linux") && FORKS.load(Ordering::Relaxed) != self.0
    }
}

/// Registers the handler, unless it is registered.
#[cfg(target_os = "linux")]
fn count_forks() {
    use std::sync::atomic::AtomicBool;

    /// Waits for a thread inside the first use of crossbeam-epoch, by rayon. The child does not have that thread, and
    /// would wait for it for ever.
    extern "C" fn forks() {
        crossbeam_epoch::default_collector();
    }

    extern "C" fn forked() {
        // Relaxed: the child has no other thread yet.
        FORKS.fetch_add(1, Ordering::Relaxed);
    }

    static REGISTERED: AtomicBool = AtomicBool::new(false);
    // Two threads may both register it. Each fork then counts twice, which does no harm. A `Once` would keep the child
    // of a fork waiting for a thread of the parent that was inside of it.
    // Acquire, Release: a thread that finds the flag set may fork at once.
    if !REGISTERED.load(Ordering::Acquire) {
        // SAFETY: `forks` may be called by any thread before a fork, because it only waits for an allocation. `forked`
        // may be called in the child of a fork, because it only adds to an atomic.
        unsafe { libc::pthread_atfork(Some(forks), None, Some(forked)) };
        REGISTERED.store(true, Ordering::Release);
    }
}
