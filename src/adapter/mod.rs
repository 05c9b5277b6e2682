//! Adapters to the timer traits of other libraries, each behind a feature of its own.

#[cfg(feature = "hyper")]
mod hyper;
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(feature = "quinn")]
pub mod quinn;
#[cfg(feature = "tower")]
pub mod tower;
