//! The programs of `docs/embedding`, and of the page on migration, that need libraries that nothing else here needs, compiled and run as tests.

#[cfg(target_os = "linux")]
#[doc = include_str!("../../docs/embedding/io-uring.md")]
mod io_uring {}
#[doc = include_str!("../../docs/embedding/mio.md")]
mod mio {}
#[doc = include_str!("../../docs/migration.md")]
mod migration {}
#[doc = include_str!("../../docs/embedding/recipes.md")]
mod recipes {}
