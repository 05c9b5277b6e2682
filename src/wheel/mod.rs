//! The hierarchical timing wheel: a data structure for one thread.
//!
//! | file                       | concern                                                                   |
//! |----------------------------|---------------------------------------------------------------------------|
//! | `wheel`                    | [`Wheel`], as its users see it, and the [`Key`] of an entry               |
//! | `levels`                   | the algorithm, over nodes that the caller stores                          |
//! | `nodes`                    | what a node is to the algorithm: its place, and the interface to its store |
//! | `level`, `occupancy`       | one ring of slots, and the bitmap of its occupied slots                   |

mod level;
mod levels;
mod nodes;
mod occupancy;
#[expect(clippy::module_inception, reason = "what the room is named after")]
mod wheel;

pub(crate) use levels::{Levels, Step};
pub(crate) use nodes::{Nodes, Place};
pub use wheel::{Key, Wheel};

#[cfg(all(test, not(loom)))]
mod levels_tests;
