//! Whether a thread is asleep, as the system reports it.

use std::fs;

/// A thread of this process, by the system's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThreadStatus(i32);

impl ThreadStatus {
    /// Returns that of the calling thread. `None` if the system does not report whether a thread is asleep.
    pub(crate) fn of_this_thread() -> Option<Self> {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        {
            // SAFETY: the call has no preconditions, because it takes no arguments and returns a number. Not every C
            // library has a function for it.
            let number = unsafe { libc::syscall(libc::SYS_gettid) };
            // `/proc` may be missing, as in some sandboxes.
            Some(Self(i32::try_from(number).ok()?)).filter(|number| number.read().is_some())
        }
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        None
    }

    /// A sample: how often the thread has gone to sleep, if it is asleep now. A thread that waits for a core is not
    /// asleep.
    ///
    /// If two calls return the same number, the thread slept all the time between them. Reads a file: some 10 µs.
    pub(crate) fn sample(self) -> Option<u64> {
        let (state, count) = self.read()?;
        // D: asleep in the kernel, where no signal wakes the thread. It waits for a disk, for example.
        matches!(state, 'S' | 'D').then_some(count)
    }

    /// Reads the state of the thread, and how often it has gone to sleep.
    fn read(self) -> Option<(char, u64)> {
        let status = fs::read_to_string(format!("/proc/self/task/{}/status", self.0)).ok()?;
        let field = |name| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim_start);
        Some((field("State:")?.chars().next()?, field("voluntary_ctxt_switches:")?.parse().ok()?))
    }
}

#[cfg(all(test, any(target_os = "linux", target_os = "android")))]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use std::sync::{Arc, mpsc};
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    fn eventually<T>(mut f: impl FnMut() -> Option<T>) -> T {
        let ends = Instant::now() + Duration::from_secs(20);
        loop {
            if let Some(value) = f() {
                return value;
            }
            assert!(Instant::now() < ends);
        }
    }

    #[test]
    fn a_thread_that_waits_is_asleep_and_one_that_spins_is_not() {
        let this = ThreadStatus::of_this_thread().unwrap();
        assert_eq!(this.sample(), None, "it runs this test");
        let (stop, spinning) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(true)));
        let (sender, receiver) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let (stopped, spins) = (stop.clone(), spinning.clone());
        let thread = thread::spawn(move || {
            sender.send(ThreadStatus::of_this_thread().unwrap()).unwrap();
            while spins.load(SeqCst) {}
            while !stopped.load(SeqCst) {
                let _ = ended.recv();
            }
        });
        let other = receiver.recv().unwrap();
        // With fewer cores than threads it may wait for a core. Then it is not asleep, either.
        for _ in 0..100 {
            assert_eq!(other.sample(), None);
        }
        spinning.store(false, SeqCst);
        let first = eventually(|| other.sample());
        thread::sleep(Duration::from_millis(5));
        assert_eq!(other.sample(), Some(first), "it has slept all the time");
        end.send(()).unwrap();
        eventually(|| other.sample().filter(|&again| again > first));
        stop.store(true, SeqCst);
        drop(end);
        thread.join().unwrap();
        assert_eq!(other.sample(), None, "it has ended");
    }
}
