//! The faults, and when they strike.

use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::Result;
use crate::children::Process;
use crate::cluster::Cluster;
use crate::database::Session;

/// How long the database is down, and how long a killed worker is.
const DOWNTIME: Duration = Duration::from_millis(500);

const CUT: &str = "
    SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM (
        SELECT pid FROM pg_stat_activity
        WHERE application_name IN ('cluster_holds worker', 'cluster_holds shop') ORDER BY random() LIMIT 2) AS picked";

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    KillWorker,
    /// Starts the workers that were killed.
    StartWorkers,
    /// Stops one worker. The others take its holds over.
    StopWorker,
    /// Stops all workers. The first one that continues has a lease that has expired, and holds that are still its own.
    StopAllWorkers,
    ContinueWorkers,
    CutConnections,
    CrashDatabase,
}

/// The faults that are still to come, and counts of those that were.
pub struct Chaos {
    plan: Vec<(Duration, Fault)>,
    stopped: Vec<usize>,
    pub kills: u64,
    pub stops: u64,
    pub cuts: u64,
    pub crashes: u64,
}

impl Chaos {
    pub fn none() -> Self {
        Self { plan: Vec::new(), stopped: Vec::new(), kills: 0, stops: 0, cuts: 0, crashes: 0 }
    }

    /// Plans faults for the time in which holds are placed and become due.
    pub fn plan(time: Duration, lease: Duration) -> Self {
        let mut plan = plan(time, lease);
        // The last comes out first.
        plan.reverse();
        Self { plan, ..Self::none() }
    }

    /// Returns whether no fault is left.
    pub fn is_over(&self) -> bool {
        self.plan.is_empty()
    }

    /// Lets the next fault strike if its time has come. `start` starts the worker of an index.
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
                    .filter(|index| workers[*index].is_some() && !self.stopped.contains(index))
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
            Fault::StopWorker => self.stop(workers, 1)?,
            Fault::StopAllWorkers => self.stop(workers, workers.len())?,
            Fault::ContinueWorkers => {
                for index in self.stopped.drain(..) {
                    if let Some(worker) = &workers[index] {
                        worker.signal(Signal::SIGCONT)?;
                    }
                }
            }
            Fault::CutConnections => self.cuts += session.query(CUT, &[])?[0].get::<_, i64>(0) as u64,
            Fault::CrashDatabase => {
                // A server that the run has not started is not killed.
                if let Some(cluster) = cluster {
                    cluster.kill()?;
                    thread::sleep(DOWNTIME);
                    cluster.start_server()?;
                    self.crashes = cluster.recoveries()?;
                }
            }
        }
        Ok(())
    }

    fn stop(&mut self, workers: &[Option<Process>], most: usize) -> Result<()> {
        for (index, worker) in
            workers.iter().enumerate().filter_map(|(index, worker)| Some((index, worker.as_ref()?))).take(most)
        {
            worker.signal(Signal::SIGSTOP)?;
            self.stopped.push(index);
            self.stops += 1;
        }
        Ok(())
    }
}

/// Returns the faults in their order: a tenth of the time between two kills, and the stop of all workers at the end.
fn plan(time: Duration, lease: Duration) -> Vec<(Duration, Fault)> {
    let stop = lease * 3 / 2;
    let mut plan = Vec::new();
    for tenth in 1..9 {
        let at = time * tenth / 10 + time.mul_f64(fastrand::f64() / 20.0);
        plan.push((at, Fault::KillWorker));
        plan.push((at + DOWNTIME, Fault::StartWorkers));
        plan.push((at + time / 20, Fault::CutConnections));
    }
    plan.push((time / 4, Fault::StopWorker));
    plan.push((time / 4 + stop, Fault::ContinueWorkers));
    plan.push((time * 13 / 20, Fault::CrashDatabase));
    plan.sort_by_key(|&(at, _)| at);
    // A worker that starts meanwhile would take all holds over.
    let last = plan.last().map_or(time, |&(at, _)| at);
    plan.push((last, Fault::StopAllWorkers));
    plan.push((last + stop, Fault::ContinueWorkers));
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(3);

    /// Plans of runs that are short and long.
    fn plans() -> impl Iterator<Item = Vec<(Duration, Fault)>> {
        (0..200).map(|index| plan(Duration::from_millis(100 + 500 * index), LEASE))
    }

    #[test]
    fn each_fault_is_planned_in_order() {
        for plan in plans() {
            assert!(plan.is_sorted_by_key(|&(at, _)| at), "{plan:?}");
            let count = |fault| plan.iter().filter(|(_, planned)| *planned == fault).count();
            assert_eq!((count(Fault::KillWorker), count(Fault::StartWorkers)), (8, 8));
            assert_eq!(
                (count(Fault::StopWorker), count(Fault::StopAllWorkers), count(Fault::ContinueWorkers)),
                (1, 1, 2)
            );
            assert_eq!((count(Fault::CutConnections), count(Fault::CrashDatabase)), (8, 1));
        }
    }

    #[test]
    fn nothing_happens_while_all_workers_are_stopped_beyond_their_leases() {
        for plan in plans() {
            let [.., (from, Fault::StopAllWorkers), (to, Fault::ContinueWorkers)] = plan[..] else {
                panic!("{plan:?}")
            };
            assert!(to - from > LEASE);
        }
    }
}
