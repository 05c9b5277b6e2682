//! Random programs: operations on the timers of one clock, run in virtual time and checked after each step against an
//! oracle, which keeps a list of deadlines.
//!
//! | file          | concern                                                              |
//! |---------------|----------------------------------------------------------------------|
//! | `grammar`     | the types of a program, and how it is generated                      |
//! | `simulation`  | runs the steps of a program, and moves the clock                     |
//! | `harness`     | a `Timer`, its oracle, its handles and its futures                   |
//! | `oracle`      | what each timer should do                                            |
//! | `timer_ops`   | operations on callbacks and their handles                            |
//! | `sleeps`      | operations on futures                                                |
//! | `sleep_slot`  | a future, and what each poll of it should return                     |
//! | `test_future` | the kinds of futures                                                 |
//! | `task`        | the tasks that poll futures, and a check of which task a call wakes  |
//! | `callback`    | the closure of every timer                                           |
//! | `shutdown`    | the shutdown of a `Timer`, and the drop of its last clone            |
//! | `executors`   | executors of every kind                                              |
//! | `shortage`    | makes the process run short of threads or memory                     |
//!
//! The order in which shards run timers of the same tick is not specified, so the oracle predicts no sequence. Instead,
//! each callback reports its run to the oracle, which checks that the run is allowed at this time. Callbacks that may run
//! concurrently do not operate on each other's timers: either outcome would be right.
//!
//! Shared by a test, which generates programs with proptest, and by fuzz targets, which generate them with `arbitrary`.
#![allow(dead_code, unused_imports, reason = "one fuzz target does not use the shortage")]

mod callback;
mod executors;
mod grammar;
mod harness;
mod oracle;
mod shortage;
mod shutdown;
mod simulation;
mod sleep_slot;
mod sleeps;
mod task;
mod test_future;
mod timer_ops;

pub use grammar::Program;
pub use shortage::{Resource, Shortage};
pub use simulation::{run, run_with_shortage};
