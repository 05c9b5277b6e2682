//! What every measurement needs.

pub mod laps;
pub mod random;
