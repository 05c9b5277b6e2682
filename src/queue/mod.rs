//! Queues of values that come out when they are due.
//!
//! | file          | concern                                                                       |
//! |---------------|-------------------------------------------------------------------------------|
//! | `delay_queue` | [`DelayQueue`], as its users see it                                           |
//! | `expired`     | [`Expired`]: a value that is due                                              |
//! | `key`         | [`DelayKey`]: removes and resets one value                                    |
//! | `blocking`    | a consumer that blocks its thread                                             |
//! | `shared`      | what the clones of a queue share                                              |
//! | `home`        | the shards that keep the timers of the values                                 |
//! | `open`        | the queues of one service, which its shutdown closes                          |
//! | `hand_over`   | the way of a value from its producer to one consumer, and every wake-up       |
//! | `expiry`      | the timer's part in a value: makes it due, with the others of a driver's turn |
//! | `line`        | what the lock of a queue guards                                               |
//! | `due`         | items that are due, in the batches that drivers push                          |
//! | `item`        | one value, and the flag by which one thread takes it                          |
//!
//! Each value has a timer of its own, whose callback the driver runs itself. So a value that is due does not pass through
//! the executor. The queue is not built on a queue of a crate: the drivers must not wait for a consumer that stopped in
//! the middle of a pop, nor a consumer for a driver in the middle of a push. And loom must be able to explore it.
//!
//! loom explores the files without `cfg(not(loom))`.

#[cfg(not(loom))]
mod blocking;
#[cfg(not(loom))]
mod delay_queue;
mod due;
#[cfg(not(loom))]
mod expired;
pub(crate) mod expiry;
pub(crate) mod hand_over;
#[cfg(not(loom))]
mod home;
pub(crate) mod item;
#[cfg(not(loom))]
mod key;
pub(crate) mod line;
#[cfg(not(loom))]
mod open;
#[cfg(not(loom))]
mod shared;

#[cfg(not(loom))]
pub use self::{delay_queue::DelayQueue, expired::Expired, key::DelayKey};
#[cfg(not(loom))]
pub(crate) use self::{home::Home, open::OpenQueues};
