//! Threads as the system sees them: the timer slack and the core of an own thread, and whether a thread is asleep.
//!
//! A thread inherits both from the thread that starts it. The slack makes sleeps exact, and is set once: two system calls
//! in each round would cost more than it does to a thread that inherits it. A core would bind all threads that foreign code
//! starts. So a pinned thread gets back the cores that it was started with before it [runs foreign
//! code](Scheduling::run_foreign), and [pins](Scheduling::pin) itself again before it sleeps.

use std::fs;

use core_affinity::CoreId;

/// The settings of one own thread. They are best effort: a refusal by the system is ignored.
pub(crate) struct Scheduling {
    /// The core of a pinned thread, and the cores that it was started with.
    core: Option<(CoreId, Cores)>,
    is_pinned: bool,
}

impl Scheduling {
    /// Sets the slack of the calling thread, which [`pin`](Self::pin) is to pin to `core`.
    pub(crate) fn new(core: Option<CoreId>) -> Self {
        set_least_slack();
        Self { core: core.and_then(|core| Some((core, Cores::of_this_thread()?))), is_pinned: false }
    }

    /// Pins the calling thread to its core, if it has one.
    #[inline]
    pub(crate) fn pin(&mut self) {
        if let Some((core, _)) = self.core.as_ref().filter(|_| !self.is_pinned) {
            core_affinity::set_for_current(*core);
            self.is_pinned = true;
        }
    }

    /// Runs foreign code, or code that starts threads, with the cores that the calling thread was started with.
    #[inline]
    pub(crate) fn run_foreign<R>(&mut self, f: impl FnOnce() -> R) -> R {
        if let Some((_, initial)) = self.core.as_ref().filter(|_| self.is_pinned) {
            initial.set_for_this_thread();
            self.is_pinned = false;
        }
        f()
    }
}

/// Sets the nanoseconds by which the system may prolong a sleep, to end several sleeps together, from 50,000 to 1.
fn set_least_slack() {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    // SAFETY: the call has no preconditions, because it only sets a number of the calling thread.
    let _ = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
}

/// A set of cores. Empty on systems where there is nothing to restore.
struct Cores(#[cfg(any(target_os = "linux", target_os = "android"))] libc::cpu_set_t);

impl Cores {
    /// Returns `None` if the thread could not be unpinned. Then it is not pinned.
    fn of_this_thread() -> Option<Self> {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        {
            // SAFETY: all bytes zero are valid, because they are the empty set.
            let mut cores = unsafe { std::mem::zeroed() };
            // SAFETY: we own the set, and the system writes no more bytes, because we pass its size.
            let failed = unsafe { libc::sched_getaffinity(0, size_of_val(&cores), &mut cores) };
            // It fails if the system has more cores than a set can hold.
            (failed == 0).then_some(Self(cores))
        }
        // On Windows and Apple's systems, a thread does not inherit the core of the thread that starts it. On the others
        // it could not be unpinned.
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        cfg!(any(windows, target_vendor = "apple")).then_some(Self())
    }

    fn set_for_this_thread(&self) {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        // SAFETY: the system reads no more bytes than the set has, because we pass its size.
        let _ = unsafe { libc::sched_setaffinity(0, size_of_val(&self.0), &self.0) };
    }
}

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

/// Returns how many threads can run at once, or 1 if the system does not report it.
pub(crate) fn parallelism() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
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

#[cfg(all(test, target_os = "linux"))]
mod scheduling_tests {
    use std::thread;

    use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
    use nix::sys::prctl::{get_timerslack, set_timerslack};
    use nix::unistd::Pid;

    use super::*;

    /// Returns the slack and the cores of the calling thread.
    fn of_this_thread() -> (i32, CpuSet) {
        (get_timerslack().unwrap(), sched_getaffinity(Pid::from_raw(0)).unwrap())
    }

    #[test]
    fn foreign_code_runs_with_the_initial_cores() {
        // On a thread of its own, because threads that this one starts would inherit the settings.
        let test = || {
            let (_, inherited) = of_this_thread();
            for core in core_affinity::get_core_ids().unwrap() {
                let mut scheduling = Scheduling::new(Some(core));
                let mut pinned = CpuSet::new();
                pinned.set(core.id).unwrap();
                assert_eq!(of_this_thread(), (1, inherited), "not pinned yet");
                for _ in 0..2 {
                    scheduling.pin();
                    assert_eq!(of_this_thread(), (1, pinned));
                    assert_eq!(scheduling.run_foreign(of_this_thread), (1, inherited));
                }
            }
        };
        thread::spawn(test).join().unwrap();
    }

    #[test]
    fn only_a_change_makes_a_system_call() {
        let test = || {
            let core = core_affinity::get_core_ids().unwrap()[0];
            let [mut free, mut pinned] = [None, Some(core)].map(Scheduling::new);
            let mut other = CpuSet::new();
            other.set(core_affinity::get_core_ids().unwrap().last().unwrap().id).unwrap();
            let is_unchanged = |f: &mut dyn FnMut()| {
                set_timerslack(777).unwrap();
                sched_setaffinity(Pid::from_raw(0), &other).unwrap();
                f();
                of_this_thread() == (777, other)
            };
            assert!(is_unchanged(&mut || free.pin()) && is_unchanged(&mut || free.run_foreign(|| ())));
            assert!(is_unchanged(&mut || pinned.run_foreign(|| ())), "it is not pinned");
            pinned.pin();
            assert!(is_unchanged(&mut || pinned.pin()), "it is pinned already");
            assert!(!is_unchanged(&mut || pinned.run_foreign(|| ())));
            assert!(is_unchanged(&mut || pinned.run_foreign(|| ())), "it is restored already");
        };
        // Other cores tell on a machine with two.
        if super::parallelism() > 1 {
            thread::spawn(test).join().unwrap();
        }
    }
}
