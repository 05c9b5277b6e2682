//! The engine of a shard: all protocols between threads, in terms of ticks and entries.
//!
//! | file                | concern                                                                         |
//! |---------------------|---------------------------------------------------------------------------------|
//! | [`entry`]           | one timer: its state machine, and which thread may touch which part of it       |
//! | [`memory`]          | the slab of entries, and how free entries reach the threads that need them      |
//! | [`stack`]           | the lock-free stack that the intake and the free lists of entries are           |
//! | [`wakeup`]          | how the driver sleeps, and how other threads wake it                            |
//! | [`core`]            | what all threads share of a shard, and each step of a timer through it          |
//! | [`deliveries`]      | what a turn collects for delay queues                                           |
//! | [`call_stack`]      | the callbacks that the current thread is inside of                              |
//! | [`shutdown`]        | closes all entries, and takes the pending timers                                |
//! | [`trim`]            | gives free memory back to the system                                            |
//! | [`driver`]          | turns the wheel, in rounds of bounded turns                                     |
//! | [`seat`]            | which thread drives which shard, and where a driver lies meanwhile              |
//! | [`alarm`]           | how a thread that has a role sleeps                                             |
//! | [`gate`]            | how often a thread that drives begins to expire timers                          |
//! | [`program_waker`]   | the waker of a program's loop that has a role                                   |
//!
//! The imports run from the callers' side to the memory, but in one ring: a [`seat`] holds the driver, as a `Mutex` holds
//! what it guards. The driver works on the core, of which the seat is a part.
//!
//! The engine knows no clock, no executor and no counters: it imports only `sync`, `wheel` and `system`. It reads real
//! time for one purpose, the limit of a wait for a callback. loom and shuttle therefore compile these very files, with
//! a `sync` and a `system` of their own. `shard` binds the engine to the rest of the crate.

pub(crate) mod alarm;
pub(crate) mod call_stack;
pub(crate) mod core;
pub(crate) mod deliveries;
pub(crate) mod driver;
pub(crate) mod entry;
pub(crate) mod gate;
pub(crate) mod memory;
pub(crate) mod program_waker;
pub(crate) mod seat;
pub(crate) mod shutdown;
pub(crate) mod stack;
pub(crate) mod trim;
pub(crate) mod wakeup;
