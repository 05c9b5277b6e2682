//! The one place where the standard library and loom are swapped.
//!
//! A file that is part of a protocol between threads imports its primitives only from `crate::sync`. In this crate they
//! are the standard library's. The crates `loom-tests` and `shuttle-tests` compile the same files, with a `sync` of
//! their own that has the same names.
//!
//! | file       | concern                                                                                   |
//! |------------|-------------------------------------------------------------------------------------------|
//! | `native`   | the standard library's primitives, the limits, and an id for each thread                  |
//! | `portable` | `UnsafeCell` with the interface of loom's, locks without poison, and a parker of a thread |

#[cfg(not(loom))]
mod native;
pub(crate) mod portable;

#[cfg(not(loom))]
pub(crate) use {native::*, portable::*};
