//! The scheduling of an own thread: its core, if the user pins it, and its timer slack.
//!
//! A thread inherits both from the thread that starts it. Foreign code may start threads, so an own thread
//! [restores](Scheduling::run_foreign) the settings that it was started with before it runs foreign code. It
//! [applies](Scheduling::apply) its own settings again before it sleeps. Both make system calls, but only a thread that
//! runs foreign code needs them.

use core_affinity::CoreId;

/// The settings of one own thread. They are best effort: a refusal by the system is ignored.
pub(crate) struct Scheduling {
    /// The core of a pinned thread, and the cores that it was started with.
    pinned: Option<(CoreId, Cores)>,
    /// Whether these settings are in force.
    applied: bool,
}

impl Scheduling {
    /// Creates settings for the calling thread, and does not apply them yet. With a `core`, they pin the thread to it.
    pub(crate) fn new(core: Option<CoreId>) -> Self {
        let pinned = core.and_then(|core| Some((core, Cores::of_this_thread()?)));
        Self { pinned, applied: false }
    }

    /// Applies the settings to the calling thread, unless they are applied already.
    #[inline]
    pub(crate) fn apply(&mut self) {
        if !std::mem::replace(&mut self.applied, true) {
            set_slack(LEAST_SLACK);
            if let Some((core, _)) = self.pinned {
                core_affinity::set_for_current(core);
            }
        }
    }

    /// Runs foreign code, or code that starts threads, with the settings that the calling thread was started with.
    #[inline]
    pub(crate) fn run_foreign<R>(&mut self, f: impl FnOnce() -> R) -> R {
        if std::mem::replace(&mut self.applied, false) {
            set_slack(INITIAL_SLACK);
            if let Some((_, initial)) = &self.pinned {
                initial.set_for_this_thread();
            }
        }
        f()
    }
}

/// Nanoseconds by which the system may prolong a sleep, to end several sleeps together. The default is 50 µs.
const LEAST_SLACK: u32 = 1;
/// The value that restores the slack that the thread was started with.
const INITIAL_SLACK: u32 = 0;

#[cfg(any(target_os = "linux", target_os = "android"))]
fn set_slack(nanos: u32) {
    // SAFETY: the call has no preconditions, because it only sets a number of the calling thread.
    let _ = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, libc::c_ulong::from(nanos)) };
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn set_slack(_nanos: u32) {}

#[cfg(any(target_os = "linux", target_os = "android"))]
struct Cores(libc::cpu_set_t);

#[cfg(any(target_os = "linux", target_os = "android"))]
impl Cores {
    /// Returns `None` if the system has more cores than a set can hold. Then the thread is not pinned, because it could
    /// not be unpinned.
    fn of_this_thread() -> Option<Self> {
        // SAFETY: all bytes zero are valid, because they are the empty set.
        let mut cores = unsafe { std::mem::zeroed() };
        // SAFETY: we own the set, and the system writes no more bytes, because we pass its size.
        let failed = unsafe { libc::sched_getaffinity(0, size_of_val(&cores), &mut cores) };
        (failed == 0).then_some(Self(cores))
    }

    fn set_for_this_thread(&self) {
        // SAFETY: the system reads no more bytes than the set has, because we pass its size.
        let _ = unsafe { libc::sched_setaffinity(0, size_of_val(&self.0), &self.0) };
    }
}

/// On other systems there is nothing to restore.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
struct Cores;

#[cfg(not(any(target_os = "linux", target_os = "android")))]
impl Cores {
    /// On Windows and Apple's systems, a thread does not inherit the core of the thread that starts it. On the others
    /// it could not be unpinned, so this returns `None`, and the thread is not pinned.
    fn of_this_thread() -> Option<Self> {
        cfg!(any(windows, target_vendor = "apple")).then_some(Self)
    }

    fn set_for_this_thread(&self) {}
}

/// Returns how many threads can run at once, or 1 if the system does not report it.
pub(crate) fn parallelism() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::thread;

    use nix::sched::{CpuSet, sched_getaffinity};
    use nix::sys::prctl::{get_timerslack, set_timerslack};
    use nix::unistd::Pid;

    use super::*;

    /// Returns the slack and the cores of the calling thread.
    fn of_this_thread() -> (i32, CpuSet) {
        (get_timerslack().unwrap(), sched_getaffinity(Pid::from_raw(0)).unwrap())
    }

    /// Returns the slack and the cores of an own thread that is pinned to `core`.
    fn pinned_to(core: CoreId) -> (i32, CpuSet) {
        let mut cores = CpuSet::new();
        cores.set(core.id).unwrap();
        (LEAST_SLACK as i32, cores)
    }

    #[test]
    fn foreign_code_runs_with_the_initial_settings() {
        // On a thread of its own, because threads that this one starts would inherit the settings.
        let test = || {
            let inherited = of_this_thread();
            for core in core_affinity::get_core_ids().unwrap() {
                let mut scheduling = Scheduling::new(Some(core));
                assert_eq!(of_this_thread(), inherited, "not applied yet");
                for _ in 0..2 {
                    scheduling.apply();
                    assert_eq!(of_this_thread(), pinned_to(core));
                    assert_eq!(scheduling.run_foreign(of_this_thread), inherited);
                }
            }
            let mut scheduling = Scheduling::new(None);
            scheduling.apply();
            assert_eq!(of_this_thread(), (LEAST_SLACK as i32, inherited.1));
        };
        thread::spawn(test).join().unwrap();
    }

    #[test]
    fn only_a_change_makes_a_system_call() {
        let test = || {
            let mut scheduling = Scheduling::new(None);
            let unchanged = |mut f: Box<dyn FnMut() + '_>| {
                set_timerslack(777).unwrap();
                f();
                get_timerslack().unwrap() == 777
            };
            assert!(unchanged(Box::new(|| scheduling.run_foreign(|| ()))), "nothing is applied");
            assert!(!unchanged(Box::new(|| scheduling.apply())));
            assert!(unchanged(Box::new(|| scheduling.apply())), "it is applied already");
            assert!(!unchanged(Box::new(|| scheduling.run_foreign(|| ()))));
            assert!(unchanged(Box::new(|| scheduling.run_foreign(|| ()))), "it is restored already");
        };
        thread::spawn(test).join().unwrap();
    }
}
