//! The plots.
//!
//! | file   | contents                                  |
//! |--------|-------------------------------------------|
//! | `draw` | the plot of each workload, and its lines  |
//! | `axis` | an axis and its scale                     |

mod axis;
mod draw;

pub use draw::all;
