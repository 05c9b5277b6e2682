//! The crate's direct calls to the operating system.
//!
//! | file            | concern                                                     |
//! |-----------------|-------------------------------------------------------------|
//! | `cores`         | how many threads can run at once                            |
//! | `pages`         | memory that goes back to the system page by page            |
//! | `process`       | detects the child of a `fork`                               |
//! | `scheduling`    | the core and the timer slack of an own thread               |
//! | `thread_status` | whether a thread is asleep                                  |

mod cores;
mod pages;
mod process;
mod scheduling;
mod thread_status;

pub(crate) use cores::parallelism;
pub(crate) use pages::{Pages, page_size};
pub(crate) use process::Process;
pub(crate) use scheduling::Scheduling;
pub(crate) use thread_status::ThreadStatus;
