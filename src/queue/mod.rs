//! Queues of values that come out when they are due.
//!
//! | file          | concern                                                                              |
//! |---------------|--------------------------------------------------------------------------------------|
//! | `delay_queue` | [`DelayQueue`], as its users see it, and the [`Expired`] values that it returns      |
//! | `key`         | [`DelayKey`]: removes and resets one value                                           |
//! | `shared`      | what the clones of a queue share: its values, and the shards that keep their timers  |
//! | `expiry`      | the timer's part in a value: makes it due, with the others of a driver's turn        |
//! | `hand_over`   | how a value travels from its producer to one consumer, and how consumers are woken   |
//! | `members`     | all items in the queue                                                               |
//! | `line`        | the items that are due, and the consumers that wait                                  |
//! | `item`        | one value, and the flag by which one thread takes it                                 |
//!
//! Each value has a timer of its own, whose callback the driver runs itself. So a value that is due does not pass through
//! the executor. The queue is not built on a channel of a crate: one value must be taken out of the middle by its key, and
//! loom must be able to explore it.
//!
//! loom explores the files without `cfg(not(loom))`.

#[cfg(not(loom))]
mod delay_queue;
pub(crate) mod expiry;
pub(crate) mod hand_over;
pub(crate) mod item;
#[cfg(not(loom))]
mod key;
pub(crate) mod line;
mod members;
#[cfg(not(loom))]
mod shared;

#[cfg(not(loom))]
pub use self::delay_queue::{DelayQueue, Expired};
#[cfg(not(loom))]
pub use self::key::DelayKey;
