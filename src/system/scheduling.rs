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
