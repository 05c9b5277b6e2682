//! The files of a shard that take part in a protocol between threads.

#[path = "../../src/shard/bell.rs"]
mod bell;
#[path = "../../src/shard/cache.rs"]
pub(crate) mod cache;
#[path = "../../src/shard/callback.rs"]
pub(crate) mod callback;
#[path = "../../src/shard/core.rs"]
pub(crate) mod core;
#[path = "../../src/shard/entry.rs"]
pub(crate) mod entry;
#[path = "../../src/shard/frames.rs"]
mod frames;
#[path = "../../src/shard/intake.rs"]
mod intake;
#[path = "../../src/shard/look.rs"]
pub(crate) mod look;
/// The crate's own is memory of the system.
#[path = "shard/pages.rs"]
pub(crate) mod pages;
#[path = "../../src/shard/pool.rs"]
pub(crate) mod pool;
#[path = "../../src/shard/rounds.rs"]
pub(crate) mod rounds;
#[path = "../../src/shard/run.rs"]
pub(crate) mod run;
#[path = "../../src/shard/slab.rs"]
pub(crate) mod slab;
#[path = "../../src/shard/stack.rs"]
mod stack;
#[path = "../../src/shard/trim.rs"]
mod trim;
#[path = "../../src/shard/word.rs"]
pub(crate) mod word;
