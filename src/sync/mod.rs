//! The one place where the standard library and loom are swapped.
//!
//! A file that is part of a protocol between threads imports its primitives only from `crate::sync`. In this crate they
//! are the standard library's. The crates `loom-tests` and `shuttle-tests` compile the same files, with a `sync` of
//! their own that has the same names.
//!
//! | file        | concern                                           |
//! |-------------|---------------------------------------------------|
//! | `native`    | the standard library's primitives, and the limits |
//! | `cell`      | `UnsafeCell` with the interface of loom's         |
//! | `lock`      | locks that a panic does not poison                |
//! | `parker`    | parks one thread; another unparks it              |
//! | `thread_id` | an id for each thread                             |

pub(crate) mod cell;
pub(crate) mod lock;
#[cfg(not(loom))]
mod native;
#[cfg(any(not(loom), shuttle))]
pub(crate) mod parker;
#[cfg(not(loom))]
mod thread_id;

#[cfg(not(loom))]
pub(crate) use native::*;
