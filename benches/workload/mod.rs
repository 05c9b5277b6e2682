//! The measurements of a [`Contender`](crate::contender::Contender).
//!
//! | file     | contents                                            |
//! |----------|-----------------------------------------------------|
//! | `rig`    | a contender with standing timers, and its measures  |
//! | `firing` | timers that all fire at once                        |

mod firing;
mod rig;

pub use rig::{Operation, Rig, rig};
