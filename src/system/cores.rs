//! The number of cores.

/// Returns how many threads can run at once, or 1 if the system does not report it.
pub(crate) fn parallelism() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
