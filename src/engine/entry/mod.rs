//! The state machine of a timer.
//!
//! An [`Entry`] is the memory of one timer, a single cache line: an atomic state word, the timer's callback, and the
//! links of the lists that the entry can be in. These threads touch it:
//!
//! - the *owner* of an unused entry, which makes a timer of it;
//! - the *handle*, that is, the thread that has the timer's handle: it cancels or resets the timer, and releases the
//!   entry;
//! - the *driver* of the shard, which links the entry into the wheel, and finds it when its slot expires;
//! - a *worker*, which takes the entry from a batch and runs the callback, or a thread that drops the batch unrun; the
//!   driver itself is the worker of callbacks that wake a task;
//! - the *shutdown*, that is, the thread that closes the shard.
//!
//! This page has the rules, the states and the transitions. The code is in these files:
//!
//! | file          | concern                                                                         |
//! |---------------|---------------------------------------------------------------------------------|
//! | `parts`       | the state word and the fields, and the loop of all transitions but `close`      |
//! | `transitions` | the transitions, and how the driver must be notified of a new deadline          |
//! | `callback`    | a closure of any type in 32 bytes                                               |
//!
//! # Ground rules
//!
//! The state word decides all ownership. A transition is one read-modify-write of that word. It is refused, and changes
//! nothing, if the state does not allow it. When several threads attempt conflicting transitions, one succeeds, and the
//! others see that it did.
//!
//! - **The callback** belongs to the thread that clears `ARMED`, from that transition on. While `RUNNING` is set, it
//!   belongs to the worker that set `RUNNING`. A shutdown may replace `ARMED` by `CLAIMED`: then the callback belongs to
//!   the thread that clears `CLAIMED`.
//! - **The `vtable`** of the callback is never anything but a table, or null, and tables live for ever. So a thread that
//!   owns nothing may read the name of the callback's type there: [`Entry::observe`].
//! - **The `place`** in the wheel belongs to the driver, always.
//! - **`registered_tick`**, the tick at which the driver has linked the entry, is written by the driver alone, and only
//!   for an armed entry. Other threads may read it while the entry is not armed.
//! - **The `next_in_intake` link** belongs to the thread that set `ENQUEUED`, until the driver has collected the entry.
//! - **An unused entry** belongs to its owner, with the callback's cell and the `next_magazine` link. There are two
//!   kinds:
//!   - If no flag is set, the entry is *free*. Its owner is the thread whose transition cleared the last flag; that
//!     thread must recycle it.
//!   - If `UNUSED` is set, and none but `LINKED` and `ENQUEUED` besides, the owner is the thread that has the entry in
//!     its cache, or that has popped it from the depot.
//!
//! A handle keeps `HANDLE` set and is not `Clone`. So an entry is not used for another timer while its handle lives,
//! and no handle ever refers to another timer.
//!
//! # The states
//!
//! ```text
//!           arm             collect                 expire                 start
//! unused ───────► ARMED ────────────────► ARMED ──────────────► ARMED ───────────────► RUNNING
//!  ▲              ENQUEUED                LINKED                DISPATCHED               │  │
//!  │              in the intake           in the wheel          in a batch               │  │
//!  │                ▲  ▲  ▲                  │                     │                     │  │
//!  │                │  │  └─ reset to earlier┘                     │                     │  │
//!  │                │  └─────────────── start, if it was postponed ┘                     │  │
//!  │                └──────────────────────────────── arm_next, of a periodic timer ─────┘  │
//!  └───────────────────────────────────────────────────────────────────── finish ───────────┘
//! ```
//!
//! A cancel clears `ARMED` and does nothing else: the entry stays where it is until the driver or a worker comes to it.
//! The picture leaves out `HANDLE`, which keeps an entry from becoming unused even if its timer has ended.
//!
//! The flags of an entry are one row of this table, with or without `HANDLE`. `PERIODIC`, `WAKER`, `VALUE`, `RESET`
//! and `HAS_WAITER` only qualify a timer. This page leaves them out; some remain set until the entry is free. `CLAIMED`
//! is `HAS_WAITER` without `RUNNING`: only the shutdown sets it, in place of `ARMED`.
//!
//! | flags                                | the entry is                               | comes to it next            |
//! |--------------------------------------|--------------------------------------------|-----------------------------|
//! | `ARMED ENQUEUED`, maybe `LINKED`     | in the intake, or about to be pushed       | driver, by the deadline     |
//! | `ARMED LINKED`                       | in the wheel, at its deadline or earlier   | driver, at that tick        |
//! | `ARMED DISPATCHED`                   | in a batch                                 | a worker                    |
//! | `RUNNING`, and `ARMED` if periodic   | with a worker that runs or drops it        | that worker                 |
//! | `LINKED`, `ENQUEUED`, or both        | cancelled; still in wheel, intake, or both | driver, by the old deadline |
//! | `DISPATCHED`                         | cancelled; still in a batch                | a worker                    |
//! | none but `HANDLE`                    | ended, or reserved for a timer             | its handle                  |
//! | none                                 | free                                       | its owner                   |
//! | `UNUSED`, maybe `LINKED`, `ENQUEUED` | in a thread's cache, or in the depot       | its owner, or the driver    |
//! | any of these, and `CLOSED`           | as above; never armed, reset or started    | the shutdown, if `ARMED` or `CLAIMED` |
//!
//! # Re-arming in place
//!
//! Nearly every timeout is cancelled, and only the driver may unlink an entry. So a cancelled entry stays in the wheel
//! or the intake. It goes, as `UNUSED`, to the cache of the thread that drops the handle, whose next timer takes it. If
//! the driver comes to the entry no later than the new deadline, `arm` pushes nothing: the driver will find an armed
//! entry with a later deadline, and link it there.
//!
//! The steady state of timeouts is therefore one transition to arm, and two to cancel and release, on a cache line that
//! no other thread writes. The races with the driver, and why `registered_tick` can be trusted, are in
//! [docs/internals/protocols.md](../../../docs/internals/protocols.md#re-arming-in-place).
//!
//! # The transitions
//!
//! *Postponed* means: reset to a later deadline. *Early enough* means: `registered_tick` is not after the new deadline.
//!
//! | transition           | from → to                                         | loom models                       |
//! |----------------------|---------------------------------------------------|-----------------------------------|
//! | **by the owner**     |                                                   |                                   |
//! | `arm`                | unused or reserved → `ARMED ENQUEUED HANDLE`      | `sleep`                           |
//! |                      | `LINKED`, early enough → `ARMED LINKED HANDLE`    | `rearm_in_place`, `in_flight`     |
//! |                      | `ENQUEUED` → `ARMED ENQUEUED HANDLE`, no push     | `rearm_in_place`                  |
//! |                      | refused if `CLOSED`                               | `shutdown`, `shutdown_sleep`      |
//! | `reserve`            | unused → `HANDLE`                                 | `wake`, `shutdown_sleep`          |
//! | **by the handle**    |                                                   |                                   |
//! | `cancel`             | clears `ARMED`                                    | `cancel`, `drain`, `in_flight`    |
//! | `reset`              | `ARMED`: replaces the deadline, adds `RESET`      | `reset`, `periodic`               |
//! |                      | earlier, `ARMED LINKED`: adds `ENQUEUED`          | `reset`, `in_flight`              |
//! |                      | refused if `CLOSED`                               | `in_flight`                       |
//! | `release`            | `HANDLE` → none                                   | `cancel`                          |
//! |                      | still linked or enqueued: `HANDLE` → `UNUSED`     | `rearm_in_place`                  |
//! | `wait_for_run`       | `RUNNING`: adds `HAS_WAITER`                      | `periodic`, `shutdown_inside`     |
//! | **by the driver**    |                                                   |                                   |
//! | `collect`            | `ARMED ENQUEUED` → `ARMED LINKED`                 | `sleep`, `in_flight`, `backlog`   |
//! |                      | cancelled or closed: clears `ENQUEUED`, `LINKED`  | `drain`, `in_flight`, `backlog`   |
//! | `expire`             | `ARMED LINKED` → `ARMED DISPATCHED`               | `cancel`, `drain`                 |
//! |                      | postponed: `ARMED LINKED` → `ARMED ENQUEUED`      | `reset`, `rearm_in_place`         |
//! |                      | cancelled or closed: clears `LINKED`              | `drain`, `rearm_in_place`         |
//! | `reclaim`            | as the owner: clears `UNUSED`, `LINKED`           | `recycle`                         |
//! | **by a worker**      |                                                   |                                   |
//! | `start`              | one-shot: `ARMED DISPATCHED` → `RUNNING`          | `cancel`                          |
//! |                      | periodic: `ARMED DISPATCHED` → `ARMED RUNNING`    | `periodic`                        |
//! |                      | postponed: `ARMED DISPATCHED` → `ARMED ENQUEUED`  | `reset`                           |
//! |                      | cancelled or closed: clears `DISPATCHED`          | `cancel`, `shutdown`              |
//! | `finish`             | clears `RUNNING`, `HAS_WAITER`                    | `cancel`, `periodic`              |
//! | `complete`           | `ARMED RUNNING` → `RUNNING`                       | `periodic`                        |
//! |                      | refused after a reset, unless it panicked         | `periodic`                        |
//! | `arm_next`           | `ARMED RUNNING` → `ARMED ENQUEUED`                | `periodic`, `in_flight`           |
//! |                      | closed: `ARMED RUNNING` → `ARMED`                 | `shutdown`                        |
//! | `discard`            | as `start`, but `ARMED DISPATCHED` → `RUNNING`    | `cancel`, `reset`, `shutdown`     |
//! | **by the shutdown**  |                                                   |                                   |
//! | `close`              | adds `CLOSED`                                     | `shutdown`, `backlog`             |
//! |                      | an `ARMED` timer stays `ARMED`                    | `shutdown_sleep`                  |
//! | `claim`              | `ARMED CLOSED` → `CLAIMED CLOSED`                 | `shutdown`                        |
//! |                      | `ARMED RUNNING CLOSED` → `RUNNING CLOSED`         | `shutdown_inside`, `shutdown`     |
//! | `take`               | `CLOSED`: clears `ARMED` or `CLAIMED`             | `shutdown`, `shutdown_sleep`      |
//!
//! - A thread that drops a batch unrun calls `discard` in place of `start`, and drops the callback in place of a run.
//! - The shutdown waits for a run by `wait_for_run`, and then claims the timer. If it does not wait for the run, or the
//!   run is on its own thread, it claims the timer at once.
//! - What each pair of racing transitions leads to is in
//!   [docs/internals/protocols.md](../../../docs/internals/protocols.md#the-states-of-an-entry).
//!
//! # Orderings
//!
//! Every transition is at least `AcqRel`. Acquire: the new owner sees the callback and the place that the previous
//! owner wrote. Release: publishes those that we wrote to the next owner. The first load of the word, and a failed
//! compare-exchange, are `Acquire`, because callers also act on a state that refuses their transition.
//!
//! A compare-exchange is `SeqCst`. It orders a new deadline before the load by which the caller sees until when the
//! driver sleeps: see the head of [`wakeup`](super::wakeup). Weaker orderings cost the same on x86-64.
//!
//! # Progress
//!
//! Transitions are lock-free. But for spurious failures of `compare_exchange_weak`, an attempt fails only if the word
//! has changed, that is, if another thread has made a transition. A timer makes few transitions in its life, so retries
//! are rare.

mod callback;
mod parts;
mod transitions;

pub(crate) use callback::{Callback, CallbackKind, Data, PeriodicCallback, Table};
pub(crate) use parts::{
    ARMED, CHUNK, CLAIMED, CLOSED, DISPATCHED, ENQUEUED, EXACT_RANGE, Entry, HANDLE, HAS_WAITER, LINKED, RUNNING, State,
};
pub(crate) use transitions::DriverNotice;

#[cfg(all(test, not(loom)))]
mod callback_tests;
