//! Contenders for one workload only.

pub mod nothing;
pub mod task;
