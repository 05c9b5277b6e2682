//! All shards of a service: which thread drives which, when, and what comes out.
//!
//! | file         | concern                                                           |
//! |--------------|-------------------------------------------------------------------|
//! | `shard_set`  | `ShardSet`: the shards, their roles, the leader                   |
//! | `own_thread` | a shard's own thread: turns, hand-out, sleep, and how it ends     |
//! | `busyness`   | how busy an own thread is                                         |
//! | `program`    | [`Driver`]: the program's own loop drives a shard                 |
//! | `hand_out`   | what expires in some turns: values, callbacks, wakers, in this order |
//! | `batch`      | expired callbacks on their way through the executor               |

mod batch;
mod busyness;
mod hand_out;
mod own_thread;
mod program;
mod shard_set;

pub use self::program::Driver;
pub(crate) use self::{
    own_thread::{OwnThreadHandle, drive},
    shard_set::ShardSet,
};
