//! The interface of a single-threaded queue of deadlines that the benchmarks can measure, and its implementations.
//!
//! | file        | contents                               |
//! |-------------|----------------------------------------|
//! | `interface` | [`Queue`]                              |
//! | `measure`   | the measurements                       |
//! | other files | one queue each                         |

pub mod bitwheel;
pub mod heap;
mod interface;
pub mod measure;
pub mod nexus;
pub mod wheel;

pub use interface::Queue;
