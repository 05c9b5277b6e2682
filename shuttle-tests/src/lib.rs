//! Long scenarios over corewheel's own source files, under random schedules.
//!
//! loom explores every schedule of a few threads that take a few steps, and every order that the memory model allows.
//! [shuttle](shuttle) chooses schedules at random and knows sequential consistency only, so it can follow more threads
//! through longer lives. `SHUTTLE_SCHEDULES=10000` tries more of them than `cargo test -p shuttle-tests` does.
//!
//! The source files are those that `loom-tests` compiles against loom, here compiled against shuttle.
#![cfg_attr(not(test), allow(dead_code))]

#[allow(dead_code)]
#[path = "../../loom-tests/src/support/mod.rs"]
mod support;
mod sync;

use support::*;

#[cfg(test)]
mod scenarios;
