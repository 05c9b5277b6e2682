//! Random programs of all that one can do with a `Timer`, played in virtual time, and compared step by step with an
//! oracle that keeps a list of what is due when.
//!
//! | file       | concern                                                              |
//! |------------|----------------------------------------------------------------------|
//! | `language` | what a program says                                                  |
//! | `oracle`   | what should come of it                                               |
//! | `stage`    | plays a program on a timer and on the oracle, side by side           |
//! | `acts`     | what is done with callbacks and their handles                        |
//! | `naps`     | what is done with futures                                            |
//! | `callback` | the closure of every timer                                           |
//! | `in_turn`  | an executor that runs one callback at a time, in whichever shard     |
//!
//! The order in which the shards run what is due at the same tick is open. So the oracle is not asked for a list to be
//! compared at the end: each callback tells it that it runs, and it says whether that is right here and now. Callbacks
//! that an executor may run at the same time leave each other's timers alone, as there either outcome would be right.
//!
//! Shared by a test, where proptest makes the programs, and a fuzz target, where `arbitrary` does.

mod acts;
mod callback;
mod in_turn;
mod language;
mod naps;
mod oracle;
mod stage;

pub use language::Program;
pub use stage::play;
