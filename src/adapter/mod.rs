//! What other libraries need of a timer, each behind a feature of its own.

#[cfg(feature = "hyper")]
mod hyper;
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(feature = "quinn")]
pub mod quinn;
#[cfg(feature = "tower")]
pub mod tower;
