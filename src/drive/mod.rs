//! All shards of a service: which thread drives which, when, and what comes out.
//!
//! | file           | concern                                                          |
//! |----------------|------------------------------------------------------------------|
//! | `shard_set`    | `ShardSet`: the shards, their roles, the leader                  |
//! | `own_thread`   | a shard's own thread: turns, hand-out, sleep                     |
//! | `own_thread_handle` | how a shutdown waits for an own thread                     |
//! | `load`         | how busy an own thread is                                        |
//! | `program_loop` | the role of a shard while the program's own loop drives it       |
//! | `expired`      | what expires in a turn: values, callbacks, wakers, in this order |
//! | `batch`        | expired callbacks on their way through the executor              |

mod batch;
mod expired;
mod load;
mod own_thread;
mod own_thread_handle;
mod program_loop;
mod shard_set;

pub(crate) use self::{
    own_thread::drive, own_thread_handle::OwnThreadHandle, program_loop::ProgramLoop, shard_set::ShardSet,
};
