//! The crate's direct calls to the operating system.
//!
//! | file      | concern                                                                              |
//! |-----------|--------------------------------------------------------------------------------------|
//! | `pages`   | memory that goes back to the system page by page                                     |
//! | `process` | detects the child of a `fork`                                                        |
//! | `threads` | the number of cores; the core and the slack of a thread, and whether it is asleep    |

mod pages;
mod process;
mod threads;

pub(crate) use pages::{Pages, page_size};
pub(crate) use process::Process;
pub(crate) use threads::{Scheduling, ThreadStatus, parallelism};
