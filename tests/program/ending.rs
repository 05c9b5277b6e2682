//! The end of a timer: its shutdown, and the drop of its last clone.

use std::mem;
use std::sync::MutexGuard;
use std::thread;

use super::stage::{Actor, Stage, World, lock};

impl Stage {
    /// Shuts the timer down, and looks at what is handed back.
    pub fn shutdown<'a>(&'a self, mut world: MutexGuard<'a, World>, actor: Actor) -> MutexGuard<'a, World> {
        let Some(timer) = world.timer.clone() else { return world };
        let again = self.close(world);

        let mut handed_back = Vec::new();
        for (index, unfired) in timer.shutdown().enumerate() {
            let deadline = unfired.deadline;
            let dropped = lock(&self.dropped).len();
            if index % 2 == 0 {
                unfired.run()
            } else {
                drop(unfired)
            }
            // Whichever it was, now its closure is gone, and tells who it was.
            let [id] = lock(&self.dropped)[dropped..] else { panic!("one closure is gone") };
            handed_back.push((id, deadline));
        }
        assert!(handed_back.is_sorted_by_key(|&(_, deadline)| deadline));
        assert!(handed_back.is_empty() || !again);
        // Nobody else finds a clone more than there should be.
        drop(timer);

        world = self.lock();
        for (id, deadline) in handed_back {
            let due = world.oracle.timers[id].due;
            self.assert_shown(&world.oracle, deadline, due, world.oracle.time(due));
            world.oracle.hand_back(id);
        }
        Self::closed(world, actor)
    }

    /// Drops the last clone of the timer: a shutdown that hands nothing back, and drops every closure.
    pub fn drop_timer<'a>(&'a self, mut world: MutexGuard<'a, World>, actor: Actor) -> MutexGuard<'a, World> {
        let Some(timer) = world.timer.take() else { return world };
        let weak = timer.downgrade();
        let again = self.close(world);
        drop(timer);
        assert!(weak.upgrade().is_none(), "this was the last clone");

        let mut world = self.lock();
        let waiting = world.oracle.waiting();
        assert!(waiting.is_empty() || !again);
        for id in waiting {
            assert!(self.was_dropped(id), "timer {id} is still there");
            world.oracle.hand_back(id);
        }
        Self::closed(world, actor)
    }

    /// Lets go of the world, which is not to be changed until the timer is closed. Returns whether that was so before.
    fn close(&self, mut world: MutexGuard<'_, World>) -> bool {
        world.closer = Some(thread::current().id());
        mem::replace(&mut world.oracle.is_shut_down, true)
    }

    /// Of all that was pending, the callback that has done this is the last to end.
    fn closed(mut world: MutexGuard<'_, World>, actor: Actor) -> MutexGuard<'_, World> {
        if let Actor::Callback(own) = actor {
            world.oracle.cancel(own);
        }
        assert_eq!(world.oracle.books.pending, 0, "lost by the shutdown");
        world.closer = None;
        world
    }
}
