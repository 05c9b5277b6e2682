//! The state machine of a timer.
//!
//! An [`Entry`] is the memory of one timer, a single cache line: an atomic state word, the timer's callback, and the links
//! of the lists that the entry can be in. These threads touch it:
//!
//! - the *owner* of an unused entry, which makes a timer of it;
//! - the *handle*, that is, the thread that has the timer's handle: it cancels or resets the timer, and releases the entry;
//! - the *driver* of the shard, which links the entry into the wheel, and finds it when its slot expires;
//! - a *worker*, which takes the entry from a batch and runs the callback; or a thread that drops the batch unrun;
//! - the *shutdown*, that is, the thread that closes the shard.
//!
//! This page has the rules, the states and the transitions. The code is in these files:
//!
//! | file       | concern                                                                         |
//! |------------|---------------------------------------------------------------------------------|
//! | `state`    | the state word: flags and deadline in 64 bits                                   |
//! | `layout`   | the parts of an entry, and the loop that all transitions but `close` go through |
//! | `owner`    | transitions of the owner and of the handle                                      |
//! | `driver`   | transitions of the driver                                                       |
//! | `worker`   | transitions of a worker                                                         |
//! | `shutdown` | transitions of the shutdown                                                     |
//! | `poll`     | how a future replaces its waker: a cancel, then an arm                          |
//! | `outcome`  | the results of transitions: what the caller has to do next                      |
//! | `callback` | a closure of any type in 32 bytes                                               |
//!
//! # Ground rules
//!
//! The state word decides all ownership. A transition is one read-modify-write of that word. When several threads attempt
//! conflicting transitions, one succeeds, and the others see that it did.
//!
//! - **The callback** belongs to the thread that clears `ARMED`, from that transition on. While `RUNNING` is set, it belongs
//!   to the worker that set `RUNNING`.
//! - **The `links`** of the wheel belong to the driver, always.
//! - **`registered_tick`**, the tick at which the driver has linked the entry, is written by the driver alone, and only for
//!   an armed entry. Other threads may read it while the entry is not armed.
//! - **The `next_in_intake` link** belongs to the thread that set `ENQUEUED`, until the driver has collected the entry.
//! - **An unused entry** belongs to its owner, with the callback's cell and the `next_batch` link. There are two kinds:
//!   - If no flag is set, the entry is *free*. Its owner is the thread whose transition cleared the last flag; that thread
//!     must recycle it.
//!   - If `CACHED` is set, and none but `LINKED` and `ENQUEUED` besides, the owner is the thread that has the entry in its
//!     cache, or that has popped it from the pool.
//!
//! A handle keeps `HANDLE` set and is not `Clone`. So an entry is not used for another timer while its handle lives, and no
//! handle ever refers to another timer.
//!
//! # The states
//!
//! ```text
//!         arm               collect                 expire                 start
//! free ─────────► ARMED ────────────────► ARMED ──────────────► ARMED ───────────────► RUNNING
//!  ▲              ENQUEUED                LINKED                DISPATCHED               │  │
//!  │              in the intake           in the wheel          in a batch               │  │
//!  │                ▲  ▲  ▲                  │                     │                     │  │
//!  │                │  │  └─ reset to earlier┘                     │                     │  │
//!  │                │  └──────────── start, after a reset to later ┘                     │  │
//!  │                └──────────────────────────────── arm_next, of a periodic timer ─────┘  │
//!  └───────────────────────────────────────────────────────────────────── finish ───────────┘
//! ```
//!
//! A cancel clears `ARMED` and does nothing else: the entry stays where it is until the driver or a worker comes to it.
//!
//! The flags of an entry are one row of this table, with or without `HANDLE`. (`PERIODIC`, `WAKER`, `RESET_WHILE_RUNNING`
//! and `HAS_WAITER` only qualify a timer. They are left out here and above, and may remain set until the entry is free.)
//!
//! | flags                                  | the entry is                                                    | next thread to come to it   |
//! |----------------------------------------|-----------------------------------------------------------------|-----------------------------|
//! | `ARMED ENQUEUED`                       | in the intake, or about to be; with `LINKED`, in the wheel, too | driver, by the deadline     |
//! | `ARMED LINKED`                         | in the wheel, at its deadline or earlier                        | driver, at that tick        |
//! | `ARMED DISPATCHED`                     | in a batch, with the executor                                   | a worker                    |
//! | `RUNNING`, with `ARMED` if periodic    | with a worker that runs the callback                            | that worker                 |
//! | `LINKED`, `ENQUEUED`, or both          | cancelled; still in the wheel, the intake, or both              | driver, by the old deadline |
//! | `DISPATCHED`                           | cancelled; still in a batch                                     | a worker                    |
//! | none but `HANDLE`                      | ended, or reserved for a timer                                  | its handle                  |
//! | none                                   | free                                                            | its owner                   |
//! | `CACHED`, perhaps `LINKED`, `ENQUEUED` | in a thread's cache or the pool                                 | its owner, or the driver    |
//! | any of these, and `CLOSED`             | as above, but never again armed, reset or started               | the shutdown, if `ARMED`    |
//!
//! # Re-arming in place
//!
//! Nearly every timeout is cancelled, and only the driver may unlink an entry. So a cancelled entry stays in the wheel or
//! the intake. It goes, as `CACHED`, to the cache of the thread that drops the handle, whose next timer takes it. If the
//! driver comes to the entry no later than the new deadline, `arm` pushes nothing: the driver will find an armed entry with
//! a later deadline, and link it there.
//!
//! The steady state of timeouts is therefore one transition to arm, and two to cancel and release, on a cache line that no
//! other thread writes. The races with the driver, and why `registered_tick` can be trusted, are in
//! [docs/protocols.md](../../../docs/protocols.md#re-arming-in-place).
//!
//! # The transitions
//!
//! | transition           | by       | from → to                                                 | loom models                             |
//! |----------------------|----------|-----------------------------------------------------------|-----------------------------------------|
//! | `arm`                | owner    | unused or reserved → `ARMED ENQUEUED HANDLE`              | `sleep`, `shutdown`, `shutdown_sleep`   |
//! |                      |          | `LINKED`, early enough → `ARMED LINKED HANDLE`            | `rearm_in_place`, `in_flight`           |
//! | `reserve`            | owner    | free or `CACHED` → `HANDLE`                               | `wake`, `shutdown_sleep`                |
//! | `cancel`             | handle   | clears `ARMED`                                            | `cancel`, `drain`, `in_flight`          |
//! | `reset`              | handle   | `ARMED` → `ARMED`, with a new deadline                    | `reset`                                 |
//! |                      |          | `ARMED LINKED` → `ARMED LINKED ENQUEUED`, if earlier      | `reset`, `in_flight`                    |
//! |                      |          | `ARMED RUNNING` → `ARMED RUNNING RESET_WHILE_RUNNING`     | `periodic`                              |
//! | `release`            | handle   | `HANDLE` → none; `CACHED` if `LINKED` or `ENQUEUED`       | `cancel`, `rearm_in_place`              |
//! | `cancel_and_release` | handle   | `ARMED HANDLE` → `CACHED`, if one-shot and in no batch    | `wake`, `shutdown_sleep`, `guard`       |
//! | `wait_for_run`       | handle   | `RUNNING` → `RUNNING HAS_WAITER`                          | `periodic`, `shutdown_inside`           |
//! | `collect`            | driver   | `ARMED ENQUEUED` → `ARMED LINKED`                         | `sleep`, `in_flight`, `backlog`         |
//! |                      |          | cancelled or closed: clears `ENQUEUED`, `LINKED`          | `drain`, `in_flight`, `backlog`         |
//! | `expire`             | driver   | `ARMED LINKED` → `ARMED DISPATCHED`                       | `cancel`, `drain`                       |
//! |                      |          | reset to later: `ARMED LINKED` → `ARMED ENQUEUED`         | `reset`, `rearm_in_place`               |
//! |                      |          | cancelled or closed: clears `LINKED`                      | `drain`, `rearm_in_place`               |
//! | `reclaim`            | driver   | as the owner: clears `CACHED`, `LINKED`                   | `recycle`                               |
//! | `start`              | worker   | `ARMED DISPATCHED` → `RUNNING`, with `ARMED` if periodic  | `cancel`                                |
//! |                      |          | reset to later: `ARMED DISPATCHED` → `ARMED ENQUEUED`     | `reset`                                 |
//! |                      |          | cancelled or closed: clears `DISPATCHED`                  | `cancel`, `shutdown`                    |
//! | `finish`             | worker   | clears `RUNNING`, `HAS_WAITER`                            | `cancel`, `periodic`                    |
//! | `arm_next`           | worker   | `ARMED RUNNING` → `ARMED ENQUEUED`; closed: `ARMED`       | `periodic`, `shutdown`, `in_flight`     |
//! | `end`                | worker   | `ARMED RUNNING` → `RUNNING`                               | `periodic`                              |
//! | `discard`            | worker   | as `start`, but `ARMED DISPATCHED` → `DISPATCHED`         | `cancel`, `reset`, `shutdown`           |
//! | `finish_discard`     | worker   | clears `DISPATCHED`                                       | `cancel`                                |
//! | `close`              | shutdown | adds `CLOSED`                                             | `shutdown`, `shutdown_sleep`, `backlog` |
//! | `claim`              | shutdown | `ARMED CLOSED` → `CLOSED`                                 | `shutdown`                              |
//! |                      |          | not waited for: `ARMED RUNNING CLOSED` → `RUNNING CLOSED` | `shutdown_inside`, `shutdown`           |
//!
//! `discard` is made by the thread that drops a batch unrun. What each pair of racing transitions leads to is in
//! [docs/protocols.md](../../../docs/protocols.md#the-states-of-an-entry).
//!
//! # Orderings
//!
//! Every transition is at least `AcqRel`. Acquire: the new owner sees the callback and the links that the previous owner
//! wrote. Release: publishes those that we wrote to the next owner. The first load of the word, and a failed
//! compare-exchange, are `Acquire`, because callers also act on a state that refuses their transition.
//!
//! A compare-exchange is `SeqCst`. It orders a new deadline before the load by which the caller sees until when the driver
//! sleeps: see the head of [`wakeup`](super::wakeup). Weaker orderings cost the same on x86-64.
//!
//! # Progress
//!
//! Transitions are lock-free. But for spurious failures of `compare_exchange_weak`, an attempt fails only if the word has
//! changed, that is, if another thread has made a transition. A timer makes few transitions in its life, so retries are
//! rare.

mod callback;
mod driver;
mod layout;
mod outcome;
mod owner;
mod poll;
mod shutdown;
mod state;
mod worker;

pub(crate) use callback::{Callback, PeriodicCallback, Role};
pub(crate) use layout::Entry;
pub(super) use layout::FreeList;
pub(crate) use outcome::{
    Cancelled, Claim, ClosedTimer, Collect, DriverNotice, Expire, Finish, NextRun, Release, Start,
};
pub(crate) use poll::PollOutcome;
