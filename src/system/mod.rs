//! The crate's direct calls to the operating system, but for those that read a clock.
//!
//! | file          | concern                                                                              |
//! |---------------|--------------------------------------------------------------------------------------|
//! | `clock_watch` | waits until the time of day is set, or the machine resumes                           |
//! | `pages`       | memory that goes back to the system page by page                                     |
//! | `process`     | detects the child of a `fork`                                                        |
//! | `threads`     | the number of cores; the core and the slack of a thread, and whether it is asleep    |

#[cfg(feature = "wall")]
#[cfg_attr(not(target_os = "linux"), path = "no_clock_watch.rs")]
mod clock_watch;
mod pages;
mod process;
mod threads;

#[cfg(feature = "wall")]
pub(crate) use clock_watch::ClockWatch;
pub(crate) use pages::{Pages, page_size};
pub(crate) use process::Process;
pub(crate) use threads::{Scheduling, ThreadStatus, parallelism};
