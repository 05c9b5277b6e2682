//! Long scenarios over corewheel's own source files, under random schedules.
//!
//! loom explores every schedule of a few threads with a few steps, and every order that the memory model allows.
//! [shuttle](shuttle) chooses schedules at random and models only sequential consistency, so it can run more threads
//! for longer. `SHUTTLE_SCHEDULES=10000` tries more schedules than `cargo test -p shuttle-tests` does.
//!
//! The source files are those that `loom-tests` compiles with loom, here compiled with shuttle.
#![cfg_attr(not(test), allow(dead_code))]

extern crate alloc;

#[allow(dead_code)]
#[path = "../../loom-tests/src/support/mod.rs"]
mod support;
mod sync;

use support::*;

#[cfg(test)]
mod scenarios;
