//! How the system schedules a driver's thread: on one core if the user asks for it, and woken without slack.
//!
//! A thread inherits both from the thread that starts it. So a driver [restores](Scheduling::restore) what it was started
//! with before it runs foreign code, which may start threads, and [applies](Scheduling::apply) its own settings again
//! before it sleeps. Both cost system calls, but only a driver that runs foreign code makes them.

use core_affinity::CoreId;

/// The settings of one driver. All are best effort.
pub(crate) struct Scheduling {
    pinned: Option<Pinned>,
    applied: bool,
}

/// One core, and the cores that the thread was started with.
struct Pinned {
    core: CoreId,
    inherited: Cores,
}

impl Scheduling {
    /// Settings for the calling thread, which are not applied yet. With a `core`, the thread is to stay there.
    pub(crate) fn new(core: Option<CoreId>) -> Self {
        let pinned = core.and_then(|core| Some(Pinned { core, inherited: Cores::of_this_thread()? }));
        Self { pinned, applied: false }
    }

    /// Applies the settings to the calling thread, unless they are applied already.
    #[inline]
    pub(crate) fn apply(&mut self) {
        if !std::mem::replace(&mut self.applied, true) {
            set_slack(LEAST_SLACK);
            if let Some(pinned) = &self.pinned {
                core_affinity::set_for_current(pinned.core);
            }
        }
    }

    /// Restores what the calling thread was started with: foreign code may run.
    #[inline]
    pub(crate) fn restore(&mut self) {
        if std::mem::replace(&mut self.applied, false) {
            set_slack(INHERITED_SLACK);
            if let Some(pinned) = &self.pinned {
                pinned.inherited.set_for_this_thread();
            }
        }
    }
}

/// Nanoseconds that the system may add to a sleep, to end several sleeps together: without this, 50 µs.
const LEAST_SLACK: u32 = 1;
/// Stands for the slack that the thread was started with.
const INHERITED_SLACK: u32 = 0;

#[cfg(any(target_os = "linux", target_os = "android"))]
fn set_slack(nanos: u32) {
    // SAFETY: it sets a number of the calling thread.
    let _ = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, libc::c_ulong::from(nanos)) };
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn set_slack(_nanos: u32) {}

#[cfg(any(target_os = "linux", target_os = "android"))]
struct Cores(libc::cpu_set_t);

#[cfg(any(target_os = "linux", target_os = "android"))]
impl Cores {
    /// `None` if the system has more cores than a set holds: the driver is not pinned then, as it could not be unpinned.
    fn of_this_thread() -> Option<Self> {
        // SAFETY: a set of zeros is the empty set.
        let mut cores = unsafe { std::mem::zeroed() };
        // SAFETY: the system writes no more bytes than the set has.
        let failed = unsafe { libc::sched_getaffinity(0, size_of_val(&cores), &mut cores) };
        (failed == 0).then_some(Self(cores))
    }

    fn set_for_this_thread(&self) {
        // SAFETY: the system reads no more bytes than the set has.
        let _ = unsafe { libc::sched_setaffinity(0, size_of_val(&self.0), &self.0) };
    }
}

/// On these systems a new thread does not inherit the core of the thread that starts it: there is nothing to restore.
#[cfg(any(windows, target_vendor = "apple"))]
struct Cores;

#[cfg(any(windows, target_vendor = "apple"))]
impl Cores {
    fn of_this_thread() -> Option<Self> {
        Some(Self)
    }

    fn set_for_this_thread(&self) {}
}

/// On other systems a driver is not pinned, as it could not be unpinned.
#[cfg(not(any(target_os = "linux", target_os = "android", windows, target_vendor = "apple")))]
enum Cores {}

#[cfg(not(any(target_os = "linux", target_os = "android", windows, target_vendor = "apple")))]
impl Cores {
    fn of_this_thread() -> Option<Self> {
        None
    }

    fn set_for_this_thread(&self) {
        match *self {}
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::thread;

    use nix::sched::{CpuSet, sched_getaffinity};
    use nix::sys::prctl::{get_timerslack, set_timerslack};
    use nix::unistd::Pid;

    use super::*;

    /// The slack and the cores of the calling thread.
    fn of_this_thread() -> (i32, CpuSet) {
        (get_timerslack().unwrap(), sched_getaffinity(Pid::from_raw(0)).unwrap())
    }

    /// What a thread has that stays on this core.
    fn settled(core: CoreId) -> (i32, CpuSet) {
        let mut cores = CpuSet::new();
        cores.set(core.id).unwrap();
        (LEAST_SLACK as i32, cores)
    }

    #[test]
    fn what_is_applied_is_restored() {
        // Not on this thread, as all that it starts would inherit.
        let test = || {
            let inherited = of_this_thread();
            for core in core_affinity::get_core_ids().unwrap() {
                let mut scheduling = Scheduling::new(Some(core));
                assert_eq!(of_this_thread(), inherited, "not applied yet");
                for _ in 0..2 {
                    scheduling.apply();
                    assert_eq!(of_this_thread(), settled(core));
                    scheduling.restore();
                    assert_eq!(of_this_thread(), inherited);
                }
            }
            let mut scheduling = Scheduling::new(None);
            scheduling.apply();
            assert_eq!(of_this_thread(), (LEAST_SLACK as i32, inherited.1));
        };
        thread::spawn(test).join().unwrap();
    }

    #[test]
    fn only_a_change_takes_a_system_call() {
        let test = || {
            let mut scheduling = Scheduling::new(None);
            let unchanged = |mut f: Box<dyn FnMut() + '_>| {
                set_timerslack(777).unwrap();
                f();
                get_timerslack().unwrap() == 777
            };
            assert!(unchanged(Box::new(|| scheduling.restore())), "nothing is applied");
            assert!(!unchanged(Box::new(|| scheduling.apply())));
            assert!(unchanged(Box::new(|| scheduling.apply())), "it is applied already");
            assert!(!unchanged(Box::new(|| scheduling.restore())));
            assert!(unchanged(Box::new(|| scheduling.restore())), "it is restored already");
        };
        thread::spawn(test).join().unwrap();
    }
}
