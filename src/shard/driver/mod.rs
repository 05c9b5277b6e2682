//! The driver's side of a shard: what happens to a timer from its deadline on, until a worker runs it.
//!
//! | file         | concern                                                                       |
//! |--------------|-------------------------------------------------------------------------------|
//! | `rounds`     | `Driver`: one shard's wheel, in bounded turns                                 |
//! | `expired`    | what expires in a turn: values, callbacks, wakers, in this order              |
//! | `batch`      | expired callbacks on their way through the executor                           |
//! | `defer`      | wakes the consumers of a delay queue once a turn                              |
//! | `drivers`    | `Drivers`: all shards of a service, their roles, the leader                   |
//! | `thread`     | a shard's own thread, and how a shutdown waits for it                         |
//! | `load`       | how busy a role's thread is                                                   |
//! | `program`    | the program's own loop drives                                                 |

mod batch;
mod defer;
mod drivers;
mod expired;
mod load;
mod program;
mod rounds;
mod thread;

pub(crate) use self::{
    defer::{Deferred, defer},
    drivers::Drivers,
    program::ProgramDriver,
    rounds::Driver,
    thread::{DriverThread, drive},
};
