//! The hierarchical timing wheel: a data structure for one thread.
//!
//! | file                       | concern                                                                   |
//! |----------------------------|---------------------------------------------------------------------------|
//! | `wheel`, `capacity`        | [`Wheel`], as its users see it; its memory for entries                    |
//! | `node`                     | an entry of a `Wheel`, and the [`Key`] that names it                      |
//! | `levels`, `ahead`          | the algorithm, over nodes that the caller stores; cascades ahead of time  |
//! | `links`                    | the lists of nodes, and what a node is to the algorithm                   |
//! | `level`, `occupancy`       | one ring of slots, and the bitmap of its occupied slots                   |

mod ahead;
mod capacity;
mod level;
mod levels;
mod links;
mod node;
mod occupancy;
#[expect(clippy::module_inception, reason = "what the room is named after")]
mod wheel;

pub(crate) use levels::{Levels, Step};
pub(crate) use links::{Links, Nodes};
pub use node::Key;
pub use wheel::Wheel;

#[cfg(all(test, not(loom)))]
mod levels_tests;
