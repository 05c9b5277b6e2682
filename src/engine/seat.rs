//! A seat: where a role lies while no thread has it.
//!
//! A thread that hands its batches over wakes a worker for each, and the two compete for a core. So a thread with much to
//! do lends its role to a worker of the pool. The worker drives *and* runs the expired callbacks, one after the other.
//!
//! ```text
//! the role's own thread          seat       worker
//! ─────────────────────          ────       ──────
//! lend the role, with a batch    role       run the batch
//! wait                           empty      take the role, and drive until callbacks expire
//!   :                            role       put the role back, and run the callbacks
//!   :                            empty      take the role, and drive; and so on
//! reclaim the role at the end    empty      find the seat empty, and serve the queue
//! ```
//!
//! The role is a value, so one thread has it, or it lies here. A callback that takes long leaves it here. The own thread
//! looks at intervals: if the role lies here at two of them, and no worker has had it in between, it reclaims the role.
//!
//! Nothing tells one worker from another. A worker that comes back late may find the role that another worker has put
//! back. It then drives, and the other finds the seat empty.
//!
//! Loom model `seat` checks this, and the shuttle scenarios of `lending` the seats together with the job queue.

use super::alarm::Alarm;
use crate::sync::{Mutex, lock};

/// The seat of one role `R`.
pub(crate) struct Seat<R>(Mutex<State<R>>);

struct State<R> {
    role: Option<R>,
    /// How often the role was put here.
    puts: u64,
    /// The role was put here for good.
    is_given_up: bool,
}

impl<R> Seat<R> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(State { role: None, puts: 0, is_given_up: false }))
    }

    /// Takes the role, to drive. `None` if another thread has it.
    pub(crate) fn take(&self) -> Option<R> {
        lock(&self.0).role.take()
    }

    /// Puts the role here and calls `dispatch`, which gives a batch to a worker that then drives. Returns the role if no
    /// worker is free.
    pub(crate) fn lend(&self, role: R, dispatch: impl FnOnce() -> bool) -> Option<R> {
        self.put(role);
        if dispatch() { None } else { self.take() }
    }

    /// Drives on the calling worker until callbacks have expired, and returns them for the worker to run. `None`: the
    /// worker has the role no more.
    ///
    /// `drive` drives until anything has expired. If it returns `None`, `give_up` gives the role up. `hand_out` calls
    /// foreign code, and returns the callbacks.
    pub(crate) fn drive<E, B>(
        &self,
        alarm: &Alarm,
        mut drive: impl FnMut(&mut R) -> Option<E>,
        mut hand_out: impl FnMut(E) -> Option<B>,
        give_up: impl FnOnce(R),
    ) -> Option<B> {
        loop {
            let mut role = self.take()?;
            alarm.attach();
            let Some(expired) = drive(&mut role) else {
                give_up(role);
                return None;
            };
            self.put(role);
            let callbacks = hand_out(expired);
            if callbacks.is_some() {
                return callbacks;
            }
        }
    }

    /// Waits on the role's own thread until it has the role back. `pause` waits until the thread is unparked or for some
    /// time, and returns whether a look is due. `None`: `is_over`.
    pub(crate) fn wait(&self, alarm: &Alarm, is_over: impl Fn() -> bool, mut pause: impl FnMut() -> bool) -> Option<R> {
        let (mut seen, mut is_look) = (None, false);
        loop {
            match self.reclaim(seen.filter(|_| is_look)) {
                Ok(role) => {
                    alarm.attach();
                    return Some(role);
                }
                Err(here) if is_look => seen = here,
                Err(_) => {}
            }
            if is_over() {
                return None;
            }
            is_look = pause();
        }
    }

    /// Puts the role here while its thread runs callbacks, or before a worker comes.
    pub(crate) fn put(&self, role: R) {
        self.put_with(role, false);
    }

    /// Puts the role here for good. The caller must then unpark the role's own thread.
    pub(crate) fn give_up(&self, role: R) {
        self.put_with(role, true);
    }

    fn put_with(&self, role: R, is_given_up: bool) {
        let mut state = lock(&self.0);
        state.role = Some(role);
        state.puts += 1;
        state.is_given_up = is_given_up;
    }

    /// Takes the role if it was given up, or if it has lain here since a look that returned `seen`. Otherwise returns
    /// what the next look needs: `Some` if the role lies here.
    pub(crate) fn reclaim(&self, seen: Option<u64>) -> Result<R, Option<u64>> {
        let mut state = lock(&self.0);
        let here = state.role.is_some().then_some(state.puts);
        let role = if state.is_given_up || here == seen { state.role.take() } else { None };
        role.ok_or(here)
    }
}
