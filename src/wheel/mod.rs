//! The hierarchical timing wheel: a data structure for one thread.
//!
//! | file                       | concern                                                                   |
//! |----------------------------|---------------------------------------------------------------------------|
//! | `wheel`                    | [`Wheel`], as its users see it, and the [`Key`] of an entry               |
//! | `levels`                   | the algorithm, over nodes that the caller stores                          |
//! | `links`                    | the lists of nodes, and what a node is to the algorithm                   |
//! | `level`, `occupancy`       | one ring of slots, and the bitmap of its occupied slots                   |

mod level;
mod levels;
mod links;
mod occupancy;
#[expect(clippy::module_inception, reason = "what the room is named after")]
mod wheel;

pub(crate) use levels::{Levels, Step};
pub(crate) use links::{Links, Nodes};
pub use wheel::{Key, Wheel};

#[cfg(all(test, not(loom)))]
mod levels_tests;
