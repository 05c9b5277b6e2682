//! The memory of entries: where they live, and how those that are free come to who needs one.
//!
//! ```text
//!   a thread's cache ◄──── batches ────► pool ◄──── blocks ──── slab ◄──── pages ──── the system
//! ```
//!
//! | file      | concern                                              |
//! |-----------|------------------------------------------------------|
//! | `cache`   | a thread's own free entries                          |
//! | `pool`    | everybody's                                          |
//! | `slab`    | where entries live                                   |
//! | `segment` | how the slab is laid out                             |
//! | `sparse`  | free entries that are kept out of use                |
//! | `scan`    | a look at all entries                                |
//! | `stack`   | what the pool and the slab keep free things in       |
//!
//! The way back, from the pool to the system, is the driver's to go: [`trim`](super::trim).

mod cache;
mod pool;
#[cfg(not(loom))]
mod scan;
mod segment;
mod slab;
mod sparse;
mod stack;

pub(crate) use cache::Cache;
pub(crate) use pool::{BATCH, Pool, members, next_batch};
pub(crate) use slab::{Refusal, Slab};
pub(crate) use stack::NIL;
