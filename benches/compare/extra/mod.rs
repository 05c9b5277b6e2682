//! Contenders for some workloads only.

pub mod delay_queue;
pub mod noop;
pub mod setting;
pub mod task;
