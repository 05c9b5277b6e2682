//! Contenders for some workloads only.

pub mod after;
pub mod beside;
pub mod boxed;
pub mod delay_queue;
pub mod heap_queue;
pub mod noop;
pub mod setting;
pub mod task;
