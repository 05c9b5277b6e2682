//! The crate's direct calls to the operating system.
//!
//! | file            | concern                                                     |
//! |-----------------|-------------------------------------------------------------|
//! | `pages`         | memory that goes back to the system page by page            |
//! | `process`       | detects the child of a `fork`                               |
//! | `scheduling`    | the number of cores; the core and the timer slack of an own thread |
//! | `thread_status` | whether a thread is asleep                                  |

mod pages;
mod process;
mod scheduling;
mod thread_status;

pub(crate) use pages::{Pages, page_size};
pub(crate) use process::Process;
pub(crate) use scheduling::{Scheduling, parallelism};
pub(crate) use thread_status::ThreadStatus;
