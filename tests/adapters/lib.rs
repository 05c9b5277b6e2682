//! The programs in `docs`, compiled and run as tests: they need what the adapters' tests need, too.

#[doc = include_str!("../../docs/embedding/axum.md")]
mod axum {}
#[doc = include_str!("../../docs/embedding/hyper.md")]
mod hyper {}
#[doc = include_str!("../../docs/observability.md")]
mod observability {}
#[doc = include_str!("../../docs/embedding/quinn.md")]
mod quinn {}
#[doc = include_str!("../../docs/embedding/tokio.md")]
mod tokio {}
#[doc = include_str!("../../docs/embedding/tokio-tests.md")]
mod tokio_tests {}
#[doc = include_str!("../../docs/embedding/tonic.md")]
mod tonic {}
