//! The files of a shard that take part in a protocol between threads.

#[path = "../../src/shard/bell.rs"]
pub(crate) mod bell;
#[path = "../../src/shard/call_stack.rs"]
mod call_stack;
#[path = "../../src/shard/core.rs"]
pub(crate) mod core;
#[path = "../../src/shard/entry/mod.rs"]
pub(crate) mod entry;
#[path = "../../src/shard/intake.rs"]
mod intake;
#[path = "../../src/shard/loan.rs"]
pub(crate) mod loan;
#[path = "../../src/shard/memory/mod.rs"]
pub(crate) mod memory;
#[path = "../../src/shard/rounds.rs"]
pub(crate) mod rounds;
#[path = "../../src/shard/run.rs"]
pub(crate) mod run;
#[path = "../../src/shard/trim.rs"]
mod trim;
