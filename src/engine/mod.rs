//! The engine of a shard: everything that is a protocol between threads, said in ticks and entries.
//!
//! | file         | concern                                                                  |
//! |--------------|--------------------------------------------------------------------------|
//! | [`entry`]    | one timer: its state machine, and which thread may touch what            |
//! | [`memory`]   | where entries live, and how free ones come to the threads that need them |
//! | [`intake`]   | entries on their way to the driver                                       |
//! | [`wakeup`]   | the driver's sleep, and how a caller wakes it                            |
//! | [`core`]     | the shared half of a shard, and each step of a timer through it          |
//! | [`turn`]     | the driver's half: the wheel, and a bounded turn                         |
//! | [`run`]      | what a worker does with an expired timer                                 |
//! | [`call_stack`] | the callbacks that a thread is inside of                               |
//! | [`trim`]     | gives memory back to the system                                          |
//! | [`loan`]     | where the driver lies while a worker drives                              |
//!
//! The engine knows no clock, no executor and no counters: it imports only `sync`, `wheel` and `system`. So loom and
//! shuttle explore these very files, with a `sync` and a `system` of their own. `shard` binds the engine to the rest.

pub(crate) mod call_stack;
pub(crate) mod core;
pub(crate) mod entry;
pub(crate) mod intake;
pub(crate) mod loan;
pub(crate) mod memory;
pub(crate) mod run;
pub(crate) mod trim;
pub(crate) mod turn;
pub(crate) mod wakeup;
