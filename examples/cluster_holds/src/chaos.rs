//! The faults, and when they strike.

use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::Result;
use crate::children::Process;
use crate::cluster::Cluster;
use crate::database::Session;
use crate::lease;

/// How long the database is down, and how long a killed worker is.
const DOWNTIME: Duration = Duration::from_millis(500);

/// Time between two revocations of all leases.
const REVOCATION_PAUSE: Duration = Duration::from_millis(700);

const CUT: &str = "
    SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM (
        SELECT pid FROM pg_stat_activity
        WHERE application_name IN ('cluster_holds worker', 'cluster_holds shop') ORDER BY random() LIMIT 2) AS picked";

const LIVING: &str = "SELECT count(*) FROM leases WHERE worker = $1 AND expires > clock_timestamp()";

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    KillWorker,
    /// Starts the workers that were killed.
    StartWorkers,
    /// Stops one worker. The others take its holds over.
    StopWorker,
    ContinueWorker,
    /// Ends all leases, as an operator does. Workers notice when a release is refused.
    RevokeLeases,
    CutConnections,
    CrashDatabase,
}

/// Returns the name of the worker of an index in the table of leases.
pub fn worker_name(index: usize) -> String {
    format!("worker-{index}")
}

/// The faults that are still to come, and counts of those that were.
pub struct Chaos {
    plan: Vec<(Duration, Fault)>,
    /// How much later than planned the last fault struck. All that follow are as late, so a stop is never cut short.
    delay: Duration,
    stopped: Option<usize>,
    pub kills: u64,
    /// Stops that have outlasted the worker's lease.
    pub stops: u64,
    /// Leases that were revoked.
    pub revocations: u64,
    pub cuts: u64,
    pub crashes: u64,
}

impl Chaos {
    pub fn none() -> Self {
        Self {
            plan: Vec::new(),
            delay: Duration::ZERO,
            stopped: None,
            kills: 0,
            stops: 0,
            revocations: 0,
            cuts: 0,
            crashes: 0,
        }
    }

    /// Plans faults for this time, while holds are placed.
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
        let Some((at, fault)) = self.plan.pop_if(|(at, _)| *at + self.delay <= elapsed) else { return Ok(()) };
        self.delay = elapsed - at;
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
                }
            }
            Fault::ContinueWorker => {
                if let Some(index) = self.stopped.take()
                    && let Some(worker) = &workers[index]
                {
                    let leases: i64 = session.query(LIVING, &[&worker_name(index)])?[0].get(0);
                    self.stops += u64::from(leases == 0);
                    worker.signal(Signal::SIGCONT)?;
                }
            }
            Fault::RevokeLeases => {
                for index in 0..workers.len() {
                    self.revocations += lease::revoke(session, &worker_name(index))?;
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
}

/// Returns the faults in their order: a tenth of the time between two kills. The last one leaves time in which answers
/// are lost: otherwise a takeover would end a hold that its worker has claimed without the answer, and forgotten.
fn plan(time: Duration, lease: Duration) -> Vec<(Duration, Fault)> {
    let mut plan = Vec::new();
    for tenth in 1..7 {
        let at = time * tenth / 10 + time.mul_f64(fastrand::f64() / 20.0);
        plan.push((at, Fault::KillWorker));
        plan.push((at + DOWNTIME, Fault::StartWorkers));
        plan.push((at + time / 20, Fault::CutConnections));
    }
    plan.push((time / 4, Fault::StopWorker));
    let continued = time / 4 + lease * 3 / 2;
    plan.push((continued, Fault::ContinueWorker));
    // Afterwards, because the stop must outlast a lease by itself.
    for number in 0..3 {
        plan.push((continued + REVOCATION_PAUSE * number + REVOCATION_PAUSE / 2, Fault::RevokeLeases));
    }
    plan.push((time / 2, Fault::CrashDatabase));
    plan.sort_by_key(|&(at, _)| at);
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_is_planned_and_a_stop_outlasts_the_lease() {
        let lease = Duration::from_secs(3);
        for millis in (100..100_000).step_by(500) {
            let plan = plan(Duration::from_millis(millis), lease);
            assert!(plan.is_sorted_by_key(|&(at, _)| at), "{plan:?}");
            let times = |fault| plan.iter().filter(move |&&(_, planned)| planned == fault).map(|&(at, _)| at);
            for (fault, count) in [
                (Fault::KillWorker, 6),
                (Fault::StartWorkers, 6),
                (Fault::CutConnections, 6),
                (Fault::RevokeLeases, 3),
                (Fault::CrashDatabase, 1),
            ] {
                assert_eq!(times(fault).count(), count, "{fault:?}");
            }
            let stop: Vec<_> = times(Fault::StopWorker).chain(times(Fault::ContinueWorker)).collect();
            assert!(stop.len() == 2 && stop[1] - stop[0] > lease, "{plan:?}");
            assert!(times(Fault::RevokeLeases).min() > Some(stop[1]));
            assert!(times(Fault::StartWorkers).max() > times(Fault::KillWorker).max());
        }
    }
}
