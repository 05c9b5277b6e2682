//! All shards of a service: which thread drives which, when, and what comes out.
//!
//! | file           | concern                                                          |
//! |----------------|------------------------------------------------------------------|
//! | `shard_set`    | `ShardSet`: the shards, their roles, the leader                  |
//! | `own_thread`   | a shard's own thread, and how a shutdown waits for it            |
//! | `load`         | how busy an own thread is                                        |
//! | `program_loop` | the role of a shard while the program's own loop drives it       |
//! | `expired`      | what expires in a turn: values, callbacks, wakers, in this order |
//! | `batch`        | expired callbacks on their way through the executor              |

mod batch;
mod expired;
mod load;
mod own_thread;
mod program_loop;
mod shard_set;

pub(crate) use self::{
    own_thread::{OwnThreadHandle, drive},
    program_loop::ProgramLoop,
    shard_set::ShardSet,
};
