//! The allocator of entries, and how free entries reach the threads that need them.
//!
//! ```text
//!                       magazines
//!   cache of a thread ◄─────────► depot of the shard
//!           ▲                             │
//!           │ new or retired pages,       │ trim: free entries are set aside,
//!           │ or entries set aside        │ and free pages retired
//!           │                             ▼
//!           └─────────────────────────  slab  ◄─────────► the system
//!                                               segments are mapped, pages retired
//! ```
//!
//! | unit     | is                                                                                     |
//! |----------|----------------------------------------------------------------------------------------|
//! | entry    | 64 bytes: the memory of one timer, named by an index of 32 bits                        |
//! | magazine | up to 32 free entries, which move between a cache and the depot together               |
//! | block    | 64 neighbouring entries: 4 KiB, with a word that has a bit for each                    |
//! | page     | one or more blocks: the unit that the slab allocates and the system takes back         |
//! | segment  | 64 KiB to 4 MiB of pages, which are mapped together and never moved                    |
//!
//! | file            | concern                                                                |
//! |-----------------|------------------------------------------------------------------------|
//! | `free_lists`    | the cache of one thread, and the depot of a shard                      |
//! | `slab`          | allocates, retires, closes and lists pages, in segments                |
//! | `sparse_blocks` | blocks with few timers, whose free entries are *set aside*, out of use |
//!
//! A page is *retired* when its memory is given back to the system (decommitted). The driver does this in
//! [`trim`](super::trim).

mod free_lists;
mod slab;
mod sparse_blocks;

pub(crate) use free_lists::{Cache, Depot, members};
pub(super) use free_lists::{MAGAZINE, magazines};
pub(super) use slab::BLOCK;
pub(crate) use slab::{AllocError, Slab};
