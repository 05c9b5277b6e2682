//! The job queue: batches wait here for workers, and the workers of a timer's own pool for batches.
//!
//! # Jobs
//!
//! A *job* is a batch that waits for a worker. A dispatch adds the job at the end and wakes the worker that parked last,
//! whose caches are warm. A worker parks only under the lock under which it finds no job.
//! **So while a worker is parked, no job waits longer than a woken worker takes to come.**
//!
//! A batch is *late* [a millisecond](state::LATE_AFTER) after its dispatch or after its start. Each worker that takes a
//! late job puts a copy of it back at the end of the queue, under the same lock, and wakes one more worker. So a late
//! batch is in the queue until a worker finds nothing left of it to start, and idle workers join one after another. All
//! copies share the cursor of the batch. A batch that is not late has one worker, because to wake another costs as much
//! as many callbacks.
//!
//! # Workers
//!
//! A *worker* is a thread that runs [`worker_loop`](JobQueue::worker_loop) at the bottom of its stack, from its start to
//! its end. Only this loop starts callbacks, and nothing in rayon's queues runs the loop. So a callback that waits
//! inside `rayon::join` may run other work of rayon meanwhile, but never another callback. A
//! [borrowed pool](super::borrowed) has no such threads: it runs a ticket for each job instead.
//!
//! While workers are blocked inside callbacks, there are [extra](growth) ones.
//!
//! # The check
//!
//! A batch that was taken in time may become late afterwards. So the thread that has the [watch] checks the queue. It
//! puts late batches into the queue, once each. Jobs that wait need no check: they are late when they are taken. The
//! check also calls for searches while a worker is parked, and for [growth] while none is. It need not come again if all
//! workers are busy. A worker that was woken and has not come is not busy yet: the check comes again.
//!
//! # Rayon's work
//!
//! A callback gives work to rayon by `spawn`, `join` and so on. The work goes to the rayon queue of its worker, or with
//! `spawn_broadcast` to a queue of each worker that no other reads. rayon wakes no thread for it, as no worker ever
//! sleeps inside rayon. Two rules replace that:
//!
//! 1. After each batch, a worker does the work in its own rayon queues. If there was any, it calls for a search.
//! 2. While any run takes over 40 µs, the check calls for a search, at intervals of 1 ms to 64 ms. A vain search doubles
//!    the interval. Work that is found resets it, and so does a run that is late. A busy worker searches every 10 ms
//!    then.
//!
//! A call for a search wakes the worker that parked first, and those that have parked since the caller's run began. They
//! do rayon's work from all queues until there is none. A worker that has found some calls again. A worker that is about
//! to park searches first, if there was a call since its last search began.
//!
//! *This chain reaches all parts of a broadcast.* Let the broadcast happen in a run, and let its worker find its own
//! part after that run: it calls. At that time each other worker is in one of three states. If it parked before the run
//! began, it has not done its part, and neither have those that parked before it. As they are first in the list, they
//! are woken one after another: each finds its part, and so calls. If it has parked since, this call wakes it. Otherwise
//! it searches before it parks, because it sees the call, or it does its own work after its next batch. A worker that is
//! woken for a job does so, too.
//!
//! Only if a worker waits inside rayon after its broadcast, it may find its own part in the same run, and calls nobody.
//! The parts of parked workers then wait until these wake.
//!
//! # The lock
//!
//! One lock guards all of this, for some instructions at a time. Nothing foreign is called or dropped under it. Workers
//! park by the token of their thread. Only the removal from the list of parked workers ends a wait, so a token that
//! is spent elsewhere, or comes too often, does no harm: a worker reads the list before each sleep.
//!
//! Checked by the scenarios of the job queue in `shuttle-tests`. loom cannot explore it, because it has timeouts.
//!
//! | file      | concern                                                       |
//! |-----------|---------------------------------------------------------------|
//! | `queue`   | [`JobQueue`], and the loop of a worker                        |
//! | `state`   | the state behind its lock, and the check                      |
//! | `watch`   | which thread checks, and when                                 |
//! | `growth`  | how many extra workers run, and what starts them              |
//! | `probe`   | what a check reads of a worker                                |
//! | `thread`  | what the queue needs of the threads that serve it             |
//!

mod growth;
mod probe;
mod queue;
mod state;
mod thread;
mod watch;

pub(crate) use growth::ExtraThreads;
pub(crate) use queue::JobQueue;
pub(crate) use thread::{SleepProbe, WorkerThread};
