//! Work that a callback of the storm gives to rayon, and waits for.

use std::hint;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use corewheel::rayon;
use fastrand::Rng;

use crate::fault;

/// Iterations of the second part; the first has none.
const PART: u32 = 1000;

#[derive(Clone, Copy, Debug)]
pub enum RayonWork {
    Join,
    NestedJoin,
    Scope,
    Broadcast,
    Yield,
}

impl RayonWork {
    pub fn random(random: &mut Rng) -> Self {
        [Self::Join, Self::NestedJoin, Self::Scope, Self::Broadcast, Self::Yield][random.usize(..5)]
    }

    /// Gives work to the pool of the calling thread, and returns once it is done.
    pub fn run(self) {
        let done = AtomicU32::new(0);
        let is_in_pool = rayon::current_thread_index().is_some();
        let part = || (0..done.fetch_add(1, Relaxed) * PART).for_each(|_| hint::spin_loop());
        let parts = match self {
            Self::Join => {
                rayon::join(part, part);
                2
            }
            Self::NestedJoin => {
                rayon::join(|| rayon::join(part, part), || rayon::join(part, part));
                4
            }
            Self::Scope => {
                rayon::scope(|scope| (0..3).for_each(|_| scope.spawn(|_| part())));
                3
            }
            // Without a pool of its own, the callback would wait for all threads of the global one.
            Self::Broadcast if is_in_pool => rayon::broadcast(|_| part()).len() as u32,
            Self::Broadcast => 0,
            Self::Yield => {
                rayon::scope(|scope| {
                    scope.spawn(|_| part());
                    rayon::yield_now();
                });
                1
            }
        };
        if done.into_inner() != parts {
            fault::note(|| format!("{self:?} has not done {parts} parts"));
        }
    }
}
