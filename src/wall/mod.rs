//! Deadlines by clocks that jump: the time of day, and time that counts a suspend. With the feature `wall`.
//!
//! A [`Timer`](crate::Timer) measures with `Instant`, which knows no time of day and on Linux and macOS stands still while
//! the machine is suspended. A [`WallTimer`] goes by the clocks that know: for a token that expires at a date, a job at
//! three in the morning, or a lease that ends although the machine sleeps.
//!
//! ```
//! use corewheel::{Timer, wall::WallTimer};
//! use std::sync::mpsc;
//! use std::time::{Duration, SystemTime};
//!
//! let timer = Timer::new()?;
//! let wall = WallTimer::new(&timer);
//! let (sender, receiver) = mpsc::channel();
//! let soon = SystemTime::now() + Duration::from_millis(20);
//! wall.schedule_at(soon, move || sender.send(SystemTime::now()).unwrap())?;
//! assert!(receiver.recv()? >= soon);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
// | file         | concern                                                            |
// |--------------|--------------------------------------------------------------------|
// | `wall_timer` | `WallTimer`: the settings, schedules                               |
// | `handle`     | `WallHandle`: cancel and reset                                     |
// | `sleep`      | `WallSleep`: the future                                            |
// | `table`      | the deadlines in order, and what to do at each; no clock, no lock  |
// | `looks`      | when the table is looked at, and what then runs where; the end     |

mod handle;
mod looks;
mod sleep;
mod table;
mod wall_timer;

pub use handle::WallHandle;
pub use sleep::WallSleep;
pub use wall_timer::WallTimer;
