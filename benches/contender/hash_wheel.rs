//! The timer of `hierarchical_hash_wheel_timer`: a wheel on a thread that receives every call through a channel.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Wake;
use std::time::Duration;

use hierarchical_hash_wheel_timer::thread_timer::{TimerRef, TimerWithThread};
use hierarchical_hash_wheel_timer::{ClosureTimer, OneShotClosureState, PeriodicClosureState, Timer};
use thread_local::ThreadLocal;

use super::interface::Contender;

/// Number of timers for each thread, so that the numbers of different threads do not overlap.
const NUMBERS: u64 = 1 << 40;

pub struct HashWheel {
    timer: TimerWithThread<u64, OneShotClosureState<u64>, PeriodicClosureState<u64>>,
    users: ThreadLocal<RefCell<User>>,
    threads: AtomicU64,
}

/// A thread that uses the timer: its end of the channel, and the number of its next timer.
struct User {
    timer: TimerRef<u64, OneShotClosureState<u64>, PeriodicClosureState<u64>>,
    next: u64,
}

impl HashWheel {
    fn user(&self) -> &RefCell<User> {
        self.users.get_or(|| {
            let thread = self.threads.fetch_add(1, Ordering::Relaxed);
            RefCell::new(User { timer: self.timer.timer_ref(), next: thread * NUMBERS })
        })
    }
}

impl Contender for HashWheel {
    const NAME: &'static str = "hash-wheel";
    /// It rounds both the elapsed time and the delay to whole milliseconds.
    const EARLY: Duration = Duration::from_millis(2);
    type Handle = u64;

    fn start() -> Self {
        let timer = TimerWithThread::new().expect("the timer starts");
        Self { timer, users: ThreadLocal::new(), threads: AtomicU64::new(0) }
    }

    fn schedule(&self, delay: Duration, target: Arc<impl Wake + Send + Sync + 'static>) -> u64 {
        let mut user = self.user().borrow_mut();
        let number = user.next;
        user.next += 1;
        user.timer.schedule_action_once(number, delay, move |_| target.wake());
        number
    }

    fn cancel(&self, number: u64) -> Option<bool> {
        self.user().borrow_mut().timer.cancel(&number);
        None
    }

    fn rearm(
        &self,
        number: &mut u64,
        delay: Duration,
        target: &Arc<impl Wake + Send + Sync + 'static>,
    ) -> Option<bool> {
        self.cancel(*number);
        *number = self.schedule(delay, target.clone());
        None
    }
}

impl Drop for HashWheel {
    fn drop(&mut self) {
        self.timer.shutdown_async().expect("the timer ends");
    }
}
