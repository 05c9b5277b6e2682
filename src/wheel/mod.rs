//! The hierarchical timing wheel: a data structure for one thread.
//!
//! | file                       | concern                                                                   |
//! |----------------------------|---------------------------------------------------------------------------|
//! | `facade`, `capacity`       | [`Wheel`], as its users see it; its memory for entries                    |
//! | `arena`                    | the nodes of a `Wheel`, and the [`Key`]s that name them                   |
//! | `levels`, `ahead`          | the algorithm, over nodes that the caller stores; cascades ahead of time  |
//! | `links`                    | what a node is to the algorithm: links, and a deadline                    |
//! | `level`, `occupancy`       | one ring of slots, and the bitmap of its occupied slots                   |
//! | `event`, `expired_list`    | the next slot that expires; nodes whose deadline has come                 |
//! | `divisor`                  | division by a number that is fixed at run time                            |

mod ahead;
mod arena;
mod capacity;
mod divisor;
mod event;
mod expired_list;
mod facade;
mod level;
mod levels;
mod links;
mod occupancy;

pub use arena::Key;
pub(crate) use divisor::Divisor;
pub use facade::Wheel;
pub(crate) use levels::{Levels, Step};
pub(crate) use links::{Links, Nodes};
