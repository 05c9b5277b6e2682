//! `ClockWatch`: a thread that waits until the time of day is set, or until the machine resumes. Linux tells of both.
//!
//! A `timerfd` with `TFD_TIMER_CANCEL_ON_SET` becomes readable at each jump of the time of day. Its own deadline is never.
//! A resume is such a jump, too: the kernel sets its clock anew. An `eventfd` ends the thread.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::{io, thread};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::{Errno, read, write};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use rustix::time::{timerfd_create, timerfd_settime};

const ZERO: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
const NEVER: Timespec = Timespec { tv_sec: i64::MAX, ..ZERO };
/// The minimum time between two calls. Jumps that follow each other faster are drawn together.
const PAUSE: Timespec = Timespec { tv_nsec: 10_000_000, ..ZERO };

/// A thread that calls a function at each jump. Ends with the drop of this, which does not wait for it.
pub(crate) struct ClockWatch(Arc<OwnedFd>);

impl ClockWatch {
    /// Starts the thread, which calls `on_jump` at each jump from now on. An error if the system refuses the thread or a
    /// descriptor.
    pub(crate) fn start(on_jump: impl Fn() + Send + 'static) -> io::Result<Self> {
        let jumps = timerfd_create(TimerfdClockId::Realtime, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
        match timerfd_settime(&jumps, flags, &Itimerspec { it_interval: ZERO, it_value: NEVER }) {
            // Cancelled: the clock was set meanwhile. The timer is armed nevertheless.
            Ok(_) | Err(Errno::CANCELED) => {}
            Err(error) => return Err(error.into()),
        }
        let end = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let ended = end.clone();
        let watch = move || while wait_for_jump(&ended, &jumps, &on_jump) {};
        thread::Builder::new().name("corewheel-wall".to_owned()).spawn(watch)?;
        Ok(Self(end))
    }
}

/// Waits for a jump, and handles it. Returns false at the end.
fn wait_for_jump(ended: &OwnedFd, jumps: &OwnedFd, on_jump: &impl Fn()) -> bool {
    let mut fds = [ended, jumps].map(|fd| PollFd::new(fd, PollFlags::IN));
    // An error: a signal has interrupted it, and nothing is ready.
    let _ = poll(&mut fds, None);
    if !fds[1].revents().is_empty() {
        // Fails, as the timer was cancelled. It then waits for the next jump.
        let _ = read(jumps, &mut [0; 8]);
        on_jump();
        let _ = poll(&mut fds[..1], Some(&PAUSE));
    }
    fds[0].revents().is_empty()
}

impl Drop for ClockWatch {
    fn drop(&mut self) {
        let _ = write(&self.0, &1_u64.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

    use super::*;

    /// A descriptor that becomes readable as that of the jumps does.
    fn readable() -> OwnedFd {
        let fd = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        jump(&fd);
        fd
    }

    fn jump(fd: &OwnedFd) {
        write(fd, &1_u64.to_ne_bytes()).unwrap();
    }

    #[test]
    fn jumps_that_follow_each_other_are_drawn_together() {
        let (ended, jumps, calls) = (eventfd(0, EventfdFlags::CLOEXEC).unwrap(), readable(), Cell::new(0));
        let on_jump = || {
            calls.set(calls.get() + 1);
            (0..100).for_each(|_| jump(&jumps));
        };
        let start = Instant::now();
        assert!((0..3).all(|_| wait_for_jump(&ended, &jumps, &on_jump)));
        assert_eq!(calls.get(), 3);
        assert!(start.elapsed() >= Duration::from_millis(29), "{:?}", start.elapsed());
    }

    #[test]
    fn the_end_interrupts_the_pause_after_a_jump() {
        let (ended, jumps) = (eventfd(0, EventfdFlags::CLOEXEC).unwrap(), readable());
        assert!(!wait_for_jump(&ended, &jumps, &|| jump(&ended)));
        assert!(!wait_for_jump(&ended, &jumps, &|| ()));
    }

    #[test]
    fn the_thread_ends_with_its_watch_and_drops_what_it_calls() {
        let (sender, receiver) = mpsc::channel::<()>();
        let watch = ClockWatch::start(move || sender.send(()).unwrap()).unwrap();
        assert_eq!(receiver.recv_timeout(Duration::from_millis(20)), Err(mpsc::RecvTimeoutError::Timeout));
        drop(watch);
        assert_eq!(receiver.recv_timeout(Duration::from_secs(20)), Err(mpsc::RecvTimeoutError::Disconnected));
    }
}
