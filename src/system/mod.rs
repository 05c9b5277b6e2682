//! What is asked of the operating system directly.

mod pages;
mod process;
mod scheduling;
mod thread_status;

pub(crate) use pages::{Pages, page_size, try_box};
pub(crate) use process::Process;
pub(crate) use scheduling::Scheduling;
pub(crate) use thread_status::ThreadNumber;

/// How many threads can run at once, as far as the system tells.
pub(crate) fn parallelism() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
