//! Contenders for some workloads only.

pub mod delay_queue;
pub mod nothing;
pub mod setting;
pub mod task;
