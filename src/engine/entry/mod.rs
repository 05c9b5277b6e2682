//! One timer: a cache line, and the state machine that says who may touch it.
//!
//! | file       | concern                                              |
//! |------------|------------------------------------------------------|
//! | `state`     | the state word: flags and deadline in 64 bits        |
//! | `callback` | a closure of any type in 32 bytes                    |
//! | `outcome`  | what becomes of an entry by a move                   |
//! | `look`     | how a future has its timer wake another task         |
//! | `pending`  | the deadline, for a thread that does not own the entry |
//!
//! This file has the rules, and the moves.
//!
//! # Ground rules
//!
//! All ownership is in the [word]. Every move below is one compare-exchange on it, so that of any number
//! of threads that try, one makes the move and the others see that it was made.
//!
//! - Whoever clears `ARMED` owns the callback from then on. While `RUNNING` is set, the worker that set it owns it.
//! - The `links` into the wheel belong to the driver, always. So does `registered_tick`, the tick by which the entry is linked;
//!   others may read it while the entry is disarmed, as the driver moves only what is armed.
//! - The `next_in_intake` link belongs to whoever set `ENQUEUED`, until the driver has collected the entry.
//! - The entry may be used for another timer when nothing is set but `CACHED`, `LINKED` and `ENQUEUED`, by the thread in
//!   whose cache it is, or who takes it from the pool; when nothing is set at all, by whoever made the move that left it
//!   so, who must recycle it. Until then the place of the callback is his, too, and the `batch` link. As a handle is not
//!   `Clone` and keeps `HANDLE` set, no handle ever outlives its timer's entry.
//!
//! # Re-arming in place
//!
//! A cancelled timer's entry stays where it is, in the wheel or the intake, and goes to the cache of the thread that
//! drops the handle. The next timer of this thread takes it, and if it is due no earlier than the driver will come to
//! the entry, that is all: the driver finds a timer that is due later, and moves the entry there. So the steady state
//! of timeouts (one ends, another begins) is one move to arm and two to end, on a cache line that nobody else wants.
//! If the driver comes first it unlinks the entry, and leaves it in the cache. What is too much for one thread's cache
//! goes to the pool as it is, to be aimed anew by another.
//!
//! # The states
//!
//! An entry is *free* (no flag), or it is some of `HANDLE` with one line of this table:
//!
//! | flags            | where the entry is                                | who looks at it next  |
//! |------------------|---------------------------------------------------|-----------------------|
//! | `ARMED ENQUEUED`   | in the intake (with `LINKED`: in the wheel, too)  | driver, at once or at the latest when it is due |
//! | `ARMED LINKED`   | in the wheel, at its deadline or earlier          | driver, when it is due |
//! | `ARMED DISPATCHED`   | in a batch, given to the executor                 | a worker              |
//! | `RUNNING`        | in the hands of a worker (`ARMED` too: it repeats)| that worker           |
//! | `LINKED`, `ENQUEUED`, both  | cancelled, and still there               | driver, when it would have been due |
//! | `DISPATCHED`         | cancelled, in a batch                             | a worker              |
//! | none             | over, or held for a timer to be                   | its handle            |
//! | `CACHED`, with or without `LINKED`, `ENQUEUED` | in a thread's cache, or the pool | that thread, or the driver |
//! | any of these and `CLOSED` | as above, but the shard was shut down    | nobody arms, resets or starts it; the shutdown, if it is `ARMED` |
//!
//! # The moves
//!
//! | move             | by               | from → to                                                | checked by loom model |
//! |------------------|------------------|----------------------------------------------------------|-----------------------|
//! | `arm`            | its owner        | free → `ARMED ENQUEUED HANDLE`; `CACHED LINKED` → `ARMED LINKED HANDLE`, with `ENQUEUED` if it would come too late | `sleep`, `shutdown`, `shutdown_sleep`, `rearm_in_place`, `in_flight` |
//! | `hold`           | its owner        | free, `CACHED` → `HANDLE`                                | `wake`, `shutdown_sleep` |
//! | `cancel`         | handle           | `ARMED` → not                                            | `cancel`, `drain`, `in_flight` |
//! | `reset`          | handle           | new deadline; `LINKED` → `ENQUEUED` if earlier; `RUNNING` → `RESET_WHILE_RUNNING` | `reset`, `in_flight` |
//! | `release`        | handle           | `HANDLE` → not; → `CACHED` if the driver still has it    | `cancel`, `rearm_in_place`     |
//! | `cancel_and_release` | handle       | `ARMED HANDLE` → `CACHED`, unless in a batch or periodic | `wake`, `shutdown_sleep`, `guard` |
//! | `reclaim`        | driver, from the pool | `CACHED LINKED` → none                              | `recycle`             |
//! | `collect`        | driver           | `ARMED ENQUEUED` → `ARMED LINKED`; `LINKED ENQUEUED` → none  | `drain`, `sleep`, `in_flight`, `backlog` |
//! | `expire`         | driver           | `ARMED LINKED` → `ARMED DISPATCHED`, or → `ARMED ENQUEUED` if moved; `LINKED` → none | `cancel`, `drain`, `reset`, `rearm_in_place` |
//! | `start`          | worker           | `ARMED DISPATCHED` → `RUNNING`, or → `ARMED ENQUEUED` if moved | `cancel`, `reset`     |
//! | `finish`         | worker           | `RUNNING` → none                                         | `cancel`, `repeat`    |
//! | `arm_next`          | worker           | `ARMED RUNNING` → `ARMED ENQUEUED`                         | `repeat`, `shutdown`, `in_flight` |
//! | `end`            | worker           | `ARMED RUNNING` → `RUNNING`                              | `repeat`              |
//! | `discard`        | who drops a batch| `ARMED DISPATCHED` → `DISPATCHED`, or → `ARMED ENQUEUED` if moved  | `cancel`, `reset`, `shutdown` |
//! | `close`          | who shuts down   | any → `CLOSED`                                           | `shutdown`, `shutdown_sleep`, `backlog` |
//! | `claim`          | who shuts down   | `ARMED CLOSED` → `CLOSED`, and `ARMED RUNNING CLOSED` → `RUNNING CLOSED` if the run is not waited for | `shutdown`, `shutdown_inside` |
//!
//! # Orderings
//!
//! Every move is at least `AcqRel`: its acquire half makes the callback and the links that the previous owner wrote visible
//! to the new one, its release half hands ours on. Those that compare and exchange are `SeqCst`, which orders a new deadline
//! before the load by which its caller sees until when the driver sleeps: see the head of [`wakeup`](super::wakeup). There is
//! nothing to gain from less on the machines this runs on, where a compare-exchange costs the same at any ordering. The word is read first with `Acquire` for the same reason: what a
//! refused move saw is acted upon, too.
//!
//! # Progress
//!
//! A move is retried only when the word changed under it, that is when another thread made a move: lock-free. Each
//! timer's life has few moves, so in practice a retry is rare and bounded.

mod callback;
mod driver;
mod layout;
mod outcome;
mod owner;
mod pending;
mod poll;
mod shutdown;
mod state;
mod worker;

pub(crate) use callback::{Callback, PeriodicCallback, Role};
pub(crate) use layout::Entry;
pub(super) use layout::FreeList;
pub(crate) use outcome::{Claim, Collect, DriverNotice, Ended, Expire, Finish, Held, NextRun, Release, Start};
pub(crate) use poll::PollOutcome;
