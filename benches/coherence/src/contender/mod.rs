//! The timers that are compared.
//!
//! | file         | contents                                     |
//! |--------------|----------------------------------------------|
//! | `timers`     | the interface that workloads use             |
//! | `list`       | the list of contenders, with their settings  |
//! | other files  | one timer each                               |

mod corewheel;
mod heap;
mod list;
mod timers;
mod wheel;

pub use list::Contender;
pub use timers::Timers;
