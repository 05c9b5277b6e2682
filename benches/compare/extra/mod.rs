//! Contenders for some workloads only.

pub mod nothing;
pub mod setting;
pub mod task;
