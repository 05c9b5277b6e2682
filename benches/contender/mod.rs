//! The interface of a timer that the benchmarks can measure, and its implementations.
//!
//! To add a contender, implement [`Contender`] in a file of its own here, and add a line to [`all`].
//!
//! | file         | contents                                                         |
//! |--------------|------------------------------------------------------------------|
//! | `interface`  | [`Contender`], and the steps that several implementations share  |
//! | `list`       | the list of implementations                                      |
//! | `check`      | whether a contender does what the benchmarks measure             |
//! | other files  | one contender each                                               |

pub mod async_io;
mod b_tree;
pub mod check;
pub mod corewheel;
mod hash_wheel;
pub mod heap;
pub mod interface;
mod kestrel;
mod list;
pub mod pingora;
mod sharded_heap;
pub mod sleep;
pub mod tokio;

pub use interface::{Connection, Contender, FromContender};
pub use list::all;
