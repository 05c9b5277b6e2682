//! The driver's side of a shard: what happens to a timer from its deadline on, until a worker runs it.
//!
//! | file         | concern                                                                       |
//! |--------------|-------------------------------------------------------------------------------|
//! | `rounds`     | `Driver`: reads the clock, turns the wheel, trims memory, sleeps              |
//! | `drive`      | the threads that call the `Driver`: its own, or a worker while it is busy     |
//! | `load`       | measures whether the driver is busy                                           |
//! | `thread`     | the driver's own thread, as a shutdown waits for it                           |
//! | `batch`      | expired timers on their way through the executor                              |
//! | `stragglers` | calls assistance for slow batches                                             |
//! | `defer`      | wakes the consumers of a delay queue once a turn                              |

mod batch;
mod defer;
mod drive;
mod load;
mod rounds;
mod stragglers;
mod thread;

pub(crate) use self::{
    defer::{Deferred, defer},
    drive::drive,
    thread::DriverThread,
};
