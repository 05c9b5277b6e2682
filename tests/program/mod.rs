//! Random programs of all that one can do with timers on one clock, played in virtual time, and compared step by step with
//! an oracle that keeps a list of what is due when.
//!
//! | file         | concern                                                              |
//! |--------------|----------------------------------------------------------------------|
//! | `language`   | what a program says                                                  |
//! | `oracle`     | what should come of it, timer by timer                               |
//! | `simulation` | moves the clock, and takes the steps of a program                    |
//! | `shortage`   | lets a program run short of threads and memory                       |
//! | `stage`      | a timer and its oracle, side by side                                 |
//! | `ending`     | the shutdown of a timer, and the drop of its last clone              |
//! | `acts`       | what is done with callbacks and their handles                        |
//! | `naps`       | what is done with futures                                            |
//! | `bed`        | a future, and what each poll of it should return                     |
//! | `awaited`    | the kinds of futures                                                 |
//! | `task`       | the tasks that poll, and whom a call wakes                           |
//! | `callback`   | the closure of every timer                                           |
//! | `executors`  | executors of every kind                                              |
//!
//! The order in which the shards run what is due at the same tick is open. So the oracle is not asked for a list to be
//! compared at the end: each callback tells it that it runs, and it says whether that is right here and now. Callbacks
//! that an executor may run at the same time leave each other's timers alone, as there either outcome would be right.
//!
//! Shared by a test, where proptest makes the programs, and a fuzz target, where `arbitrary` does.
#![allow(dead_code, unused_imports, reason = "one fuzz target is short of nothing")]

mod acts;
mod awaited;
mod bed;
mod callback;
mod ending;
mod executors;
mod language;
mod naps;
mod oracle;
mod shortage;
mod simulation;
mod stage;
mod task;

pub use language::Program;
pub use shortage::{Lack, Shortage};
pub use simulation::{play, play_short};
