//! Replaces `std::sync::Condvar`, with the algorithm that it has on Linux.

use std::sync::LockResult;
use std::sync::atomic::Ordering;

use super::atomic::AtomicU32;
use super::{MutexGuard, futex};
use crate::schedule;
use crate::time::Duration;

#[derive(Debug, Default)]
pub struct Condvar(AtomicU32);

#[derive(Clone, Copy, Debug)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

impl Condvar {
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    #[track_caller]
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        self.wait_until(&guard, None);
        Ok(guard)
    }

    #[track_caller]
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let ends = schedule::now().saturating_add(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
        self.wait_until(&guard, Some(timeout));
        Ok((guard, WaitTimeoutResult(schedule::now() >= ends)))
    }

    #[track_caller]
    pub fn wait_while<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<MutexGuard<'a, T>> {
        while condition(&mut guard) {
            self.wait_until(&guard, None);
        }
        Ok(guard)
    }

    #[track_caller]
    fn wait_until<T>(&self, guard: &MutexGuard<'_, T>, timeout: Option<Duration>) {
        let seen = self.0.load(Ordering::Relaxed);
        guard.mutex.unlock_word();
        futex::wait(&self.0, seen, timeout);
        guard.mutex.lock_word();
    }

    #[track_caller]
    pub fn notify_one(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
        futex::wake(&self.0, false);
    }

    #[track_caller]
    pub fn notify_all(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
        futex::wake(&self.0, true);
    }
}
