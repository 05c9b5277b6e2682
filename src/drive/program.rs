//! `Driver`: the program's own loop drives a shard.

use std::fmt;
use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::slice;
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use super::hand_out::HandOut;
use super::shard_set::{ShardSet, first_role};
use crate::engine::alarm::Sleeps;
use crate::engine::gate::Gate;
use crate::engine::seat::{self, PROGRAM};
use crate::shard::{Shard, thread_state};

/// Time after which a loop without a waker looks again for a seat that another thread has.
const RETRY_AFTER: Duration = Duration::from_micros(200);

/// Drives one shard of a [`Timer`](crate::Timer) from the program's own loop.
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
/// the drop of the last [`Timer`](crate::Timer) shuts it down.
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
pub struct Driver {
    shard_set: Arc<ShardSet>,
    /// The id of the service.
    service: u64,
    /// Index of the shard.
    index: usize,
    gate: Gate,
    sleeps: Sleeps,
    /// It has driven since it last asked.
    has_driven: bool,
}

impl Driver {
    /// Takes the role of the calling thread's home. `None` if the program has it already.
    pub(crate) fn take(shard_set: &Arc<ShardSet>, service: u64, index: usize) -> Option<Self> {
        let wakeup = &shard_set.shards[index].core.wakeup;
        loop {
            let role = wakeup.seat.role();
            if role == PROGRAM {
                return None;
            }
            if wakeup.change_role(role, PROGRAM) {
                wakeup.program.bell.attach();
                let (shard_set, gate) = (shard_set.clone(), shard_set.gate.clone());
                return Some(Self { shard_set, service, index, gate, sleeps: Sleeps::default(), has_driven: true });
            }
        }
    }

    /// Expires what is due now. Returns how many timers that were: runs handed to the executor, sleeps completed, and
    /// values made due.
    ///
    /// Never blocks by itself. It calls wakers, and hands callbacks to the executor.
    /// [`Inline`](crate::Executor::Inline) runs them here, and a [custom](crate::Executor::Custom) executor is called
    /// here. What they make due may wait for the next call. After a shutdown, does nothing.
    ///
    /// Soon after [`take_driver`](crate::Timer::take_driver), a thread of the service's may still drive the shard, or run
    /// what has expired. Until it is done, this returns 0. Then it calls the waker, unless
    /// [`next_wakeup`](Self::next_wakeup) has returned a time to look again, or nothing is armed.
    pub fn drive(&mut self) -> usize {
        self.attach();
        if self.is_closed() {
            return 0;
        }
        let Self { shard_set, index, gate, sleeps, has_driven, .. } = self;
        let shard = &shard_set.shards[*index];
        let wakeup = &shard.core.wakeup;
        let now = shard.ticks.now_tick();
        // What was due when it was set passes the gate, and opens it for nothing else.
        let opens = wakeup.wake_tick() <= now && !wakeup.is_due_when_set();
        wakeup.program.wake_up(sleeps, || now);
        *has_driven = true;
        let mut expired = 0;
        let mut is_due = true;
        let mut to_present = false;
        while let Some(seated) = wakeup.take_seat(PROGRAM) {
            // A round that has begun before this call may go to an earlier tick.
            to_present |= !seated.driver.in_round;
            let Some(seated) = shard.turn(seated, is_due) else { break };
            let is_over = to_present && !seated.driver.in_round;
            let mut turn = HandOut::default();
            turn.add(shard, seated);
            expired += turn.len;
            turn.run(shard_set, |_, foreign| foreign());
            if !is_due {
                break;
            }
            // Once nothing is due, a turn of chores.
            is_due = !is_over;
        }
        if opens {
            gate.pass(gate.due_tick(now), expired > 0);
        }
        expired
    }

    /// Returns when to call [`drive`](Self::drive) again at the latest; `None`: there is nothing to do until the waker
    /// is called.
    ///
    /// The instant is at most the tick of the earliest deadline, or the end of the [slack](crate::Builder::slack) where
    /// wake-ups are dense. It may be earlier, but a loop that sleeps by it is tickless. While no waker is set, it is soon
    /// if a thread of the service's still runs what has expired in this shard. Each call begins anew: if another thread
    /// then arms a timer for earlier than the answer, it calls the waker, once. Beside that, memory to be given back calls
    /// it at most once before the next `drive`, and a shutdown. So a loop that is woken drives: otherwise memory waits
    /// until it does.
    pub fn next_wakeup(&mut self) -> Option<Instant> {
        self.attach();
        if self.is_closed() {
            return None;
        }
        let shard = &self.shard_set.shards[self.index];
        let (core, program) = (&shard.core, &shard.core.wakeup.program);
        let (now, present) = (Instant::now(), shard.ticks.now_tick());
        program.wake_up(&mut self.sleeps, || present);
        program.bell.rearm(mem::take(&mut self.has_driven));
        if let Some(seated) = core.wakeup.take_seat(PROGRAM) {
            let due = self.gate.due_tick(present);
            // The role is still the program's.
            _ = shard.guarded(seated, |driver| driver.take_in(core, due))?.put_back();
        }
        let earliest = || seat::earliest(slice::from_ref(shard), PROGRAM, present);
        match program.fall_asleep(&mut self.sleeps, self.gate.opens_at(), || present, earliest) {
            None => Some(now),
            // Otherwise the thread that has the seat calls the waker when it puts the seat back.
            Some(_) if core.wakeup.seat.is_taken() && !program.bell.is_set() => Some(now + RETRY_AFTER),
            Some(tick) => shard.ticks.instant(tick),
        }
    }

    /// Sets the waker of the loop. It takes effect at once: if a wake-up was due since the last
    /// [`next_wakeup`](Self::next_wakeup), this calls the waker.
    ///
    /// A thread that arms a timer calls the waker, maybe while it polls a task, or a thread of the service's. So the
    /// waker should only wake: write to an eventfd, wake a task. If it blocks, it delays that thread, and what that
    /// drives, until it returns. If it parks, it may take the `unpark` for which that thread waits next. Its panic goes
    /// to [`on_panic`](crate::Builder::on_panic). Dropping the `Driver` drops the waker.
    pub fn set_waker(&mut self, waker: &Waker) {
        self.attach();
        let shard = self.shard();
        let task = LoopWaker { waker: Some(waker.clone()), shard: Arc::downgrade(shard) };
        let waker = &Waker::from(Arc::new(task));
        if !self.is_closed() {
            shard.core.wakeup.program.bell.set(waker);
        }
        if self.is_closed() {
            waker.wake_by_ref();
        }
    }

    /// Returns whether the timer has been shut down.
    pub fn is_shutdown(&self) -> bool {
        self.attach();
        self.is_closed()
    }

    fn shard(&self) -> &Arc<Shard> {
        &self.shard_set.shards[self.index]
    }

    fn is_closed(&self) -> bool {
        self.shard().core.is_closing() || self.shard().is_inherited()
    }

    /// Makes the calling thread the one that has the loop.
    fn attach(&self) {
        let shard = self.shard();
        shard.core.wakeup.program.bell.attach();
        thread_state::move_home(self.service, shard);
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("is_shutdown", &self.is_closed()).finish_non_exhaustive()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // In a forked child: the waker and the executor are the parent's, and a thread of it may have the lock for
        // ever.
        if self.shard().is_inherited() {
            return mem::forget(self.shard_set.clone());
        }
        let shard = &self.shard_set.shards[self.index];
        let wakeup = &shard.core.wakeup;
        wakeup.program.wake_up(&mut self.sleeps, || 0);
        wakeup.program.bell.remove();
        wakeup.change_role(PROGRAM, first_role(self.index, self.shard_set.is_flexible));
        // The loop may have left memory to be given back.
        shard.core.wake_lazily();
    }
}

/// The waker of the program's loop. Threads that arm timers call and drop it, and so do the service's own, so no panic
/// leaves it.
struct LoopWaker {
    /// `Some` until the drop.
    waker: Option<Waker>,
    shard: Weak<Shard>,
}

impl LoopWaker {
    fn catch_panic(&self, f: impl FnOnce()) {
        if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(f)) {
            Shard::report_panic_if_alive(Some(&self.shard), true, payload);
        }
    }
}

impl Wake for LoopWaker {
    fn wake(self: Arc<Self>) {
        if let Some(waker) = &self.waker {
            self.catch_panic(|| waker.wake_by_ref());
        }
    }
}

impl Drop for LoopWaker {
    fn drop(&mut self) {
        let waker = self.waker.take();
        self.catch_panic(|| drop(waker));
    }
}
