//! Replaces `std::sync`.

mod arc;
pub mod atomic;
mod cell;
mod condvar;
pub(crate) mod futex;
mod mutex;
mod once_lock;

pub use std::sync::*;

pub use arc::{Arc, Weak};
pub use cell::RecordedCell;
pub use condvar::{Condvar, WaitTimeoutResult};
pub use mutex::{Mutex, MutexGuard};
pub use once_lock::OnceLock;
