//! The programs of `docs/embedding`, and of the pages on clocks and on migration, that need libraries that nothing else here needs, compiled and run as tests.

// Of which io_uring is on Linux alone.
#[cfg(target_os = "linux")]
#[doc = include_str!("../../docs/embedding/event-loops.md")]
mod event_loops {}
#[doc = include_str!("../../docs/clocks.md")]
mod clocks {}
#[doc = include_str!("../../docs/migration.md")]
mod migration {}
#[doc = include_str!("../../docs/embedding/recipes.md")]
mod recipes {}
