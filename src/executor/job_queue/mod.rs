//! The job queue: batches wait here for workers, and the workers of a service's own pool for batches.
//!
//! # Jobs
//!
//! A *job* is a batch that waits for a worker. A dispatch adds the job at the end and wakes the worker that became idle
//! last, whose caches are warm. A worker becomes idle only under the lock under which it finds no job.
//! **So while a worker is idle, no job waits longer than a woken worker takes to come.**
//!
//! A batch is *late* [a millisecond](jobs::LATE_AFTER) after its dispatch or after its start. Each worker that takes a
//! late job puts a copy of it back at the end of the queue, under the same lock, and wakes one more worker. So a late
//! batch is in the queue until a worker finds nothing left of it to start, and idle workers join one after another. All
//! copies share the cursor of the batch. A batch that is not late has one worker, because to wake another costs as much
//! as many callbacks.
//!
//! # Workers
//!
//! The *workers* of the own pool are threads that run [`work`](JobQueue::work) at the bottom of their
//! stacks, from their start to their end. Only this loop starts callbacks, and nothing in rayon's queues runs the loop.
//! So a callback that waits inside `rayon::join` may run other work of rayon meanwhile, but never another callback.
//! After each callback, the worker runs what that has `spawn`ed: a later one that blocks does not hold it up. What is
//! broadcast waits for the end of the batch, because to look for it takes a memory barrier. A [borrowed
//! pool](super::borrowed) has no such threads: it runs a ticket for each job instead.
//!
//! While workers are blocked inside callbacks, there are [extra](growth) ones.
//!
//! # The check
//!
//! A batch that was taken in time may become late afterwards. So the leader [checks](check) the queue. It puts late
//! batches into the queue, once each. Jobs that wait need no check: they are late when they are taken. The check also
//! calls for [growth] while no worker is idle.
//!
//! # The lock
//!
//! One lock guards all of this, for some instructions at a time. Nothing foreign is called or dropped under it. Workers
//! park by the token of their thread. Only the removal from the list of idle workers ends a wait, so a token that is
//! spent elsewhere, or comes too often, does no harm: a worker reads the list before each sleep.
//!
//! Checked by the scenarios of the job queue in `shuttle-tests`. loom cannot explore it, because it has timeouts.
//!
//! | file     | concern                                                           |
//! |----------|-------------------------------------------------------------------|
//! | `queue`  | [`JobQueue`], and the loop of a worker                            |
//! | `jobs`   | what its lock protects, and the check                             |
//! | `check`  | which thread checks, and when                                     |
//! | `growth` | how many extra threads run, and what starts them                  |
//! | `worker` | what the queue needs of its workers, and what a check samples     |

mod check;
mod growth;
mod jobs;
mod queue;
mod worker;

pub(crate) use queue::JobQueue;
pub(crate) use worker::WorkerThread;
