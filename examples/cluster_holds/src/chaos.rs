//! The faults, and when they strike.

use std::time::Duration;

use nix::sys::signal::Signal;

use crate::Result;
use crate::children::Process;
use crate::cluster::Cluster;
use crate::database::Session;

/// How long the database is down, and how long a worker is.
const DOWN: Duration = Duration::from_millis(500);

const CUT: &str = "
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE application_name IN ('cluster_holds worker', 'cluster_holds shop') ORDER BY random() LIMIT 2";

#[derive(Clone, Copy)]
enum Fault {
    KillWorker,
    /// Starts the workers that were killed.
    StartWorkers,
    /// Stops a worker until after its lease.
    StopWorker,
    ContinueWorker,
    CutConnections,
    KillDatabase,
}

/// The faults that are still to come, and counts of those that were.
pub struct Chaos {
    plan: Vec<(Duration, Fault)>,
    stopped: Option<usize>,
    pub kills: usize,
    pub stops: usize,
    pub cuts: usize,
    pub crashes: usize,
}

impl Chaos {
    pub fn none() -> Self {
        Self { plan: Vec::new(), stopped: None, kills: 0, stops: 0, cuts: 0, crashes: 0 }
    }

    /// Plans faults for the time in which holds are placed and become due: a tenth of it between two kills.
    pub fn plan(time: Duration, lease: Duration) -> Self {
        let mut chaos = Self::none();
        let mut add = |at, fault| chaos.plan.push((at, fault));
        for tenth in 1..10 {
            let at = time * tenth / 10 + time.mul_f64(fastrand::f64() / 20.0);
            add(at, Fault::KillWorker);
            add(at + DOWN, Fault::StartWorkers);
            add(at + time / 20, Fault::CutConnections);
        }
        add(time / 4, Fault::StopWorker);
        add(time / 4 + lease * 3 / 2, Fault::ContinueWorker);
        add(time * 13 / 20, Fault::KillDatabase);
        // The last comes out first.
        chaos.plan.sort_by_key(|&(at, _)| std::cmp::Reverse(at));
        chaos
    }

    /// Returns whether no fault is left.
    pub fn is_over(&self) -> bool {
        self.plan.is_empty()
    }

    /// Lets the faults strike whose time has come. `start` starts the worker of an index.
    pub fn strike(
        &mut self,
        elapsed: Duration,
        workers: &mut [Option<Process>],
        start: impl Fn(usize) -> Result<Process>,
        cluster: Option<&mut Cluster>,
        session: &mut Session,
    ) -> Result<()> {
        let Some((_, fault)) = self.plan.pop_if(|(at, _)| *at <= elapsed) else { return Ok(()) };
        match fault {
            Fault::KillWorker => {
                let victims: Vec<_> = (0..workers.len())
                    .filter(|&index| workers[index].is_some() && self.stopped != Some(index))
                    .collect();
                if let Some(victim) = fastrand::choice(victims)
                    && let Some(mut worker) = workers[victim].take()
                {
                    worker.kill()?;
                    self.kills += 1;
                }
            }
            Fault::StartWorkers => {
                for (index, worker) in workers.iter_mut().enumerate().filter(|(_, worker)| worker.is_none()) {
                    *worker = Some(start(index)?);
                }
            }
            Fault::StopWorker => {
                self.stopped = workers.iter().position(Option::is_some);
                if let Some(worker) = self.stopped.and_then(|index| workers[index].as_ref()) {
                    worker.signal(Signal::SIGSTOP)?;
                    self.stops += 1;
                }
            }
            Fault::ContinueWorker => {
                if let Some(worker) = self.stopped.take().and_then(|index| workers[index].as_ref()) {
                    worker.signal(Signal::SIGCONT)?;
                }
            }
            Fault::CutConnections => self.cuts += session.query(CUT, &[])?.len(),
            Fault::KillDatabase => {
                // A server of one's own is not killed.
                if let Some(cluster) = cluster {
                    cluster.kill()?;
                    std::thread::sleep(DOWN);
                    cluster.start_server()?;
                    self.crashes += 1;
                }
            }
        }
        Ok(())
    }
}
