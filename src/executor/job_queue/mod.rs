//! The job queue: batches wait here for the workers of a timer's own pool, and the workers for batches.
//!
//! # What is a worker
//!
//! A worker is a thread that runs [`worker_loop`](JobQueue::worker_loop) at the bottom of its stack, from its start to
//! its end. Only this loop starts callbacks, and nothing in rayon's queues runs the loop. So a thread is one worker at
//! most. A callback that waits inside `rayon::join` may run other work of rayon meanwhile, but never another callback.
//! While workers are blocked inside callbacks, there are [extra](growth) ones.
//!
//! # A worker's next action
//!
//! A worker takes the first of these that applies, under one lock that it holds for some instructions:
//!
//! 1. It *assists* with a *straggler*, a batch that a worker started over [`STRAGGLER_AFTER`] ago and that has
//!    callbacks left to start. It does not assist twice in a row while a job waits.
//! 2. On [alert](self#the-alert), it *searches* for rayon's work, if its last search is over
//!    [`MAX_STINT`](state::MAX_STINT) ago.
//! 3. It runs the first *job*, a batch that no worker has started.
//! 4. On alert, it searches, if it has run something since its last search.
//! 5. It parks until it is woken.
//!
//! An extra worker first checks whether there is [room](growth) for it. `push` wakes the worker that parked last, whose
//! caches are warm. So while a worker is parked, no job waits longer than a woken worker takes to come.
//!
//! # Rayon's work
//!
//! A callback gives work to rayon by `spawn`, `join` and so on. The work goes to the rayon queue of the worker that
//! runs the callback, and other workers steal it. After each batch, a worker does the work in its own rayon queue.
//! rayon wakes no thread for the rest, as no worker ever sleeps inside rayon. The alert makes workers search for it.
//!
//! # The alert
//!
//! A driver raises the alert when a batch is not finished [`STRAGGLER_AFTER`] after its dispatch. The cause is a
//! callback that takes long, work that it left to rayon, or a pool whose workers are all busy. The driver raises the
//! alert once for each batch, so a busy pool does not keep a driver awake. Busy workers need no wake-up: each of them
//! reads the alert before it parks. A worker that has run rayon's work raises the alert, too, and so does one that
//! assists: no driver watches the batch of a worker that [drives](self#a-worker-that-drives).
//!
//! On alert the worker that parked first is the *lookout*, the leader of a leader-follower pattern: it alone parks with
//! a timeout. It wakes for the next straggler, and searches for rayon's work after 1 ms, 2 ms, 4 ms, and so on, up to
//! 64 ms. Before it does either, it makes the next parked worker the lookout. So idle workers join one after another.
//!
//! The alert ends when a lookout finds no worker busy, no job, and each batch finished for which a driver has raised it.
//! If any worker has found rayon's work meanwhile, all parked workers search once more before that. Without an alert,
//! workers park without a timeout.
//!
//! # A worker that drives
//!
//! A job may come with the [`Loan`](super::Loan) of a shard. After the batch, the worker drives that shard and runs the
//! callbacks that expire there. Meanwhile it counts as neither busy nor parked, and takes no job. This requires that
//! few jobs wait, and that the pool has a worker for each shard. Workers that have been in one activity over
//! [`STRAGGLER_AFTER`] do not count. If a batch waits nevertheless and no worker is parked, the alert recalls all
//! loans. A worker whose driver is taken back may have a batch already, and not be busy with it yet. So the alert lasts
//! until the batch is finished.
//!
//! A callback may wait for a task that it gave to rayon. So after a batch, a worker that drives searches for rayon's
//! work, if another worker has been in one activity over [`STRAGGLER_AFTER`]. It does so at most every
//! [`MAX_STINT`](state::MAX_STINT).
//!
//! # The files
//!
//! | file      | concern                                                                  |
//! |-----------|--------------------------------------------------------------------------|
//! | `queue`   | [`JobQueue`], and the loop of a worker                                   |
//! | `state`   | the state behind its lock, and the choice of a worker's next action      |
//! | `growth`  | how many extra workers run, and what wakes them                          |
//! | `monitor` | the loop of the monitor, which samples the workers and starts extra ones |
//! | `probe`   | what the monitor reads of a worker                                       |
//! | `thread`  | what the queue needs of the threads that serve it                        |

mod growth;
mod monitor;
mod probe;
mod queue;
mod state;
mod thread;

pub(crate) use growth::ExtraThreads;
pub(crate) use queue::JobQueue;
pub(crate) use state::STRAGGLER_AFTER;
pub(crate) use thread::{MonitorThread, SleepProbe, TimedWait, WorkerThread};
