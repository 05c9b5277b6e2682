//! The workloads.
//!
//! | file         | contents                                                                |
//! |--------------|-------------------------------------------------------------------------|
//! | `list`       | the list of workloads, with their descriptions and targets              |
//! | `cases`      | the cases of each                                                       |
//! | `scale`      | how large they are                                                      |
//! | other files  | one workload each                                                       |

pub mod asleep;
pub mod burst;
mod cases;
pub mod churn;
pub mod idle;
mod list;
pub mod open_loop;
pub mod punctual;
pub mod rearm;
mod scale;
pub mod shared_queue;
pub mod slow;
pub mod storm;
pub mod wheel;

pub use list::Workload;
pub use scale::Scale;
