//! The shutdown of a `Timer`, and the drop of its last clone.

use std::mem;
use std::sync::MutexGuard;
use std::thread;

use super::harness::{Caller, Harness, HarnessState, lock};

impl Harness {
    /// Shuts the timer down, and checks the timers that it hands back.
    pub fn shutdown<'a>(
        &'a self,
        mut state: MutexGuard<'a, HarnessState>,
        caller: Caller,
    ) -> MutexGuard<'a, HarnessState> {
        let Some(timer) = state.timer.clone() else { return state };
        let again = self.close(state);

        let mut handed_back = Vec::new();
        for (index, unfired) in timer.shutdown().enumerate() {
            let deadline = unfired.deadline;
            let dropped = lock(&self.dropped).len();
            if index % 2 == 0 {
                unfired.run()
            } else {
                drop(unfired)
            }
            // Either way its closure has just been dropped, and has reported its id.
            let [id] = lock(&self.dropped)[dropped..] else { panic!("exactly one closure should be dropped") };
            handed_back.push((id, deadline));
        }
        assert!(handed_back.is_sorted_by_key(|&(_, deadline)| deadline));
        assert!(handed_back.is_empty() || !again);
        // From here on `state.timer` is the only clone again.
        drop(timer);

        state = self.lock();
        for (id, deadline) in handed_back {
            let due = state.oracle.timers[id].due;
            self.assert_displayed(&state.oracle, deadline, due, state.oracle.time(due));
            state.oracle.hand_back(id);
        }
        Self::closed(state, caller)
    }

    /// Drops the intervals and the last clone of the timer. That shuts it down, and drops every closure instead of handing
    /// it back.
    pub fn drop_timer<'a>(
        &'a self,
        mut state: MutexGuard<'a, HarnessState>,
        caller: Caller,
    ) -> MutexGuard<'a, HarnessState> {
        if !self.drop_intervals(&mut state, caller) {
            return state;
        }
        let Some(timer) = state.timer.take() else { return state };
        let weak = timer.downgrade();
        let again = self.close(state);
        drop(timer);
        assert!(weak.upgrade().is_none(), "the last clone was dropped");

        let mut state = self.lock();
        let waiting = state.oracle.waiting();
        assert!(waiting.is_empty() || !again);
        for id in waiting {
            assert!(self.was_dropped(id), "the closure of timer {id} was not dropped");
            state.oracle.hand_back(id);
        }
        Self::closed(state, caller)
    }

    /// Unlocks the state; until `closed` no other thread may change it. Returns whether the timer was shut down before.
    fn close(&self, mut state: MutexGuard<'_, HarnessState>) -> bool {
        state.closing_thread = Some(thread::current().id());
        mem::replace(&mut state.oracle.is_shut_down, true)
    }

    /// Ends the callback that shut the timer down: it is the last pending timer.
    fn closed(mut state: MutexGuard<'_, HarnessState>, caller: Caller) -> MutexGuard<'_, HarnessState> {
        if let Caller::Callback(own) = caller {
            state.oracle.cancel(own);
        }
        assert_eq!(state.oracle.counts.pending, 0, "timers that are still pending after the shutdown");
        state.closing_thread = None;
        state
    }
}
