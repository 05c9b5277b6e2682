//! `Driver`: the program's own loop drives a shard.

use std::fmt;
use std::task::Waker;
use std::time::Instant;

use super::Timer;
use crate::drive::ProgramLoop;

/// Drives one shard of a [`Timer`] from the program's own loop.
///
/// An event loop that sleeps anyway (epoll, io_uring, a game loop, a thread-per-core runtime) can expire the timers of
/// its thread itself. While the `Driver` exists, no thread of the service's wakes for this shard, but those of a pool
/// that run its callbacks, and one that checks the pool.
///
/// The loop calls [`drive`](Self::drive), does its own work, and asks [`next_wakeup`](Self::next_wakeup) last, right
/// before it sleeps. It must also wake when its waker is called: see [`set_waker`](Self::set_waker). A loop that only
/// polls, as a game loop does, needs neither.
///
/// If your loop stays away, nobody stands in for it: the timers of its shard fire late. Drop the `Driver` before a long
/// job, and take it again after it. Otherwise all promises hold as without a `Driver`, also for callbacks that the loop
/// has handed over before it stays away or waits for them.
///
/// The thread that last called a method of the `Driver` has it; until then, the thread that took it. The shard is that
/// thread's home: timers that the thread schedules are in it. What the thread schedules calls no waker, so it asks
/// `next_wakeup` after that.
///
/// Dropping the `Driver` gives the shard back to the service's own threads. A `Driver` does not keep the service alive:
/// the drop of the last [`Timer`] shuts it down.
///
/// ```
/// use corewheel::{Executor, Timer};
/// use std::{thread, time::{Duration, Instant}};
///
/// let timer = Timer::builder().executor(Executor::Inline).build()?;
/// let mut driver = timer.take_driver().expect("a real clock, and no loop of this thread has it yet");
/// timer.schedule(Duration::from_millis(5), || println!("on this thread"))?;
///
/// let mut expired = 0;
/// while expired == 0 {
///     let timeout = driver.next_wakeup().map(|at| at.saturating_duration_since(Instant::now()));
///     // Or `epoll_wait` with this timeout. Without one, until the waker is called.
///     timeout.map_or_else(thread::park, thread::park_timeout);
///     expired += driver.drive();
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Driver(ProgramLoop);

impl Timer {
    /// Gives the shard of the calling thread to the program's loop.
    ///
    /// Returns `None` if a [`Driver`] of this shard exists, if the service is shut down, if its time is virtual, or if
    /// the calling thread is one of the service's. Does not wait for callbacks: one that has started ends where it
    /// runs.
    pub fn take_driver(&self) -> Option<Driver> {
        self.0.take_driver().map(Driver)
    }
}

impl Driver {
    /// Expires what is due now. Returns how many timers that were: runs handed to the executor, sleeps completed, and
    /// values made due.
    ///
    /// Never blocks by itself. It calls wakers, and hands callbacks to the executor.
    /// [`Inline`](crate::Executor::Inline) runs them here, and a [custom](crate::Executor::Custom) executor is called
    /// here. What they make due may wait for the next call. After a shutdown, does nothing.
    ///
    /// Soon after [`take_driver`](Timer::take_driver), a thread of the service's may still drive the shard, or run what
    /// has expired. Until it is done, this returns 0. Then it calls the waker, unless
    /// [`next_wakeup`](Self::next_wakeup) has returned a time to look again, or nothing is armed.
    pub fn drive(&mut self) -> usize {
        self.0.attach();
        self.0.drive()
    }

    /// Returns when to call [`drive`](Self::drive) again at the latest; `None`: there is nothing to do until the waker
    /// is called.
    ///
    /// The instant is at most the tick of the earliest deadline, or the end of the [slack](crate::Builder::slack) where
    /// wake-ups are dense. It may be earlier, but a loop that sleeps by it is tickless. While no waker is set, it is soon
    /// if a thread of the service's still runs what has expired in this shard. Each call begins anew: if another thread then arms a timer for earlier than the answer, it calls the
    /// waker, once. Beside that, memory to be given back calls it at most once before the next `drive`, and a shutdown.
    /// So a loop that is woken drives: otherwise memory waits until it does.
    pub fn next_wakeup(&mut self) -> Option<Instant> {
        self.0.attach();
        self.0.next_wakeup()
    }

    /// Sets the waker of the loop. It takes effect at once: if a wake-up was due since the last
    /// [`next_wakeup`](Self::next_wakeup), this calls the waker.
    ///
    /// A thread that arms a timer calls the waker, maybe while it polls a task, or a thread of the service's. So the
    /// waker should only wake: write to an eventfd, wake a task. If it blocks, it delays that thread, and what that
    /// drives, until it returns. If it parks, it may take the `unpark` for which that thread waits next. Its panic goes
    /// to [`on_panic`](crate::Builder::on_panic). Dropping the `Driver` drops the waker.
    pub fn set_waker(&mut self, waker: &Waker) {
        self.0.attach();
        self.0.set_waker(waker);
    }

    /// Returns whether the timer has been shut down.
    pub fn is_shutdown(&self) -> bool {
        self.0.attach();
        self.0.is_closed()
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("is_shutdown", &self.0.is_closed()).finish_non_exhaustive()
    }
}
