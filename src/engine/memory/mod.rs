//! The allocator of entries, and how free entries reach the threads that need them.
//!
//! ```text
//!                       batches
//!   cache of a thread ◄─────────► pool of the shard
//!           ▲                             │
//!           │ new or retired frames,      │ trim: free entries are set aside,
//!           │ or entries set aside        │ and free frames retired
//!           │                             ▼
//!           └─────────────────────────  slab  ◄─────────► the system
//!                                               segments are mapped, frames retired
//! ```
//!
//! | unit    | is                                                                                     |
//! |---------|----------------------------------------------------------------------------------------|
//! | entry   | 64 bytes: the memory of one timer, named by an index of 32 bits                        |
//! | batch   | up to 32 free entries, which move between a cache and the pool together                |
//! | block   | 64 neighbouring entries: 4 KiB, with a word that has a bit for each                    |
//! | frame   | one or more blocks: a page, the unit that the slab allocates and the system takes back |
//! | segment | 64 KiB to 4 MiB of frames, which are mapped together and never moved                   |
//!
//! | file       | concern                                                                |
//! |------------|------------------------------------------------------------------------|
//! | `cache`    | the free entries of one thread                                         |
//! | `pool`     | the free list of a shard, which all threads share                      |
//! | `slab`     | allocates, retires, closes and lists frames                            |
//! | `segment`  | the layout of the slab in segments                                     |
//! | `geometry` | the sizes of these parts                                               |
//! | `sparse`   | blocks with few timers, whose free entries are *set aside*, out of use |
//!
//! A frame is *retired* when its memory is given back to the system (decommitted). The driver does this in
//! [`trim`](super::trim).

mod cache;
mod geometry;
mod pool;
mod segment;
mod slab;
mod sparse;

pub(crate) use cache::Cache;
pub(super) use geometry::BLOCK;
pub(super) use pool::{BATCH, batches};
pub(crate) use pool::{Pool, members};
pub(crate) use slab::{AllocError, Slab};
