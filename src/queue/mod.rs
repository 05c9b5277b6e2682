//! Queues of values that come out when they are due.
//!
//! | file          | concern                                                                                    |
//! |---------------|--------------------------------------------------------------------------------------------|
//! | `delay_queue` | [`DelayQueue`] as its users see it, the keys of its values, and what its clones share      |
//! | `hand_over`   | how a value travels from its producer to one consumer, and how consumers are woken         |
//! | `line`        | the flag by which one thread takes a value, which values are due, and which consumers wait |
//!
//! Each value has a timer of its own, whose callback the driver runs itself. So a value that is due does not pass through
//! the executor. The queue is not built on a channel of a crate: one value must be taken out of the middle by its key, and
//! loom must be able to explore it.
//!
//! loom explores the files without `cfg(not(loom))`.

#[cfg(not(loom))]
mod delay_queue;
pub(crate) mod hand_over;
pub(crate) mod line;

#[cfg(not(loom))]
pub use self::delay_queue::{DelayKey, DelayQueue, Expired};
