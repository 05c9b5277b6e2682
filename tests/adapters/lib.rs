//! The programs in `docs`, compiled and run as tests: they need what the adapters' tests need, too.

#[doc = include_str!("../../docs/observability.md")]
mod observability {}
#[doc = include_str!("../../docs/embedding/quinn.md")]
mod quinn {}
#[doc = include_str!("../../docs/embedding/servers.md")]
mod servers {}
#[doc = include_str!("../../docs/embedding/tokio.md")]
mod tokio {}
