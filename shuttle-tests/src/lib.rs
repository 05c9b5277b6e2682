//! Long scenarios over corewheel's own source files, under random schedules.
//!
//! loom explores every schedule of a few threads that take a few steps, and every order that the memory model allows.
//! [shuttle](shuttle) takes schedules at random, and knows no order but one; so it can follow more threads through longer
//! lives. `SHUTTLE_SCHEDULES=10000` tries more of them than `cargo test -p shuttle-tests` does.
//!
//! What is compiled here against shuttle is what `loom-tests` compiles against loom, and the queue of the executor.
#![cfg_attr(not(test), allow(dead_code))]

#[allow(dead_code)]
#[path = "../../loom-tests/src/clock.rs"]
mod clock;
#[allow(dead_code)]
#[path = "../../src/error.rs"]
mod error;
#[allow(dead_code, unused_imports)]
mod executor;
#[allow(dead_code)]
#[path = "../../src/clock/quiescence.rs"]
mod quiescence;
#[allow(dead_code, unused_imports)]
#[path = "../../loom-tests/src/scene/mod.rs"]
mod scene;
#[allow(dead_code)]
#[path = "../../loom-tests/src/shard.rs"]
mod shard;
mod sync;
#[allow(dead_code)]
#[path = "../../loom-tests/src/system.rs"]
mod system;
#[allow(dead_code)]
#[path = "../../loom-tests/src/watched.rs"]
mod watched;
#[allow(dead_code, unused_imports)]
#[path = "../../src/wheel/mod.rs"]
mod wheel;

pub use error::BuildError;

#[cfg(test)]
mod scenarios;
