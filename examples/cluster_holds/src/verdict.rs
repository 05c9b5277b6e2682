//! What a phase must have shown. A fault that struck nothing, or a check that nothing put to the test, is a failure.

use std::time::Duration;

/// Without faults, half of the releases are no later than this, unless the workers poll.
const PUNCTUAL: Duration = Duration::from_millis(100);

/// What happened in a phase.
#[derive(Clone, Default)]
pub struct Seen {
    pub paid: u64,
    pub released: u64,
    /// Lateness of the releases at p50, and the most.
    pub p50: Duration,
    pub most: Duration,
    pub notified: u64,
    pub wrong_clocks: u64,
    pub clocks_set: u64,
    /// Releases that the database refused before their deadlines, and after the lease had expired.
    pub early: u64,
    pub refused: u64,
    pub leases_lost: u64,
    /// Claims whose answers were lost, and whose holds their workers found after the last fault. Before, a takeover may
    /// end what a worker has forgotten.
    pub recovered: u64,
    /// Leases whose holds were taken over.
    pub takeovers: u64,
    pub repeated: u64,
    pub answers_lost: u64,
    pub kills: u64,
    pub stops: u64,
    /// Leases that the run has revoked.
    pub revocations: u64,
    pub cuts: u64,
    pub crashes: u64,
}

/// How the run was made.
pub struct Setup {
    pub workers: usize,
    pub lease: Duration,
    pub poll: Option<Duration>,
    /// Whether some holds are nearer than the horizon of the workers.
    pub notifies: bool,
    pub has_own_cluster: bool,
}

/// Returns what is wrong after a phase without faults.
pub fn without_faults(seen: &Seen, setup: &Setup) -> Vec<String> {
    let mut wrong = in_any_phase(seen, setup);
    let limit = PUNCTUAL + setup.poll.unwrap_or_default();
    if seen.p50 > limit {
        wrong.push(format!("half of the releases were more than {limit:?} late"));
    }
    // Each worker may lose one lease on a machine that is busy with other work.
    if seen.leases_lost > setup.workers as u64 {
        wrong.push(format!("workers lost {} leases that they should have renewed", seen.leases_lost));
    }
    if seen.early > 0 && seen.clocks_set == 0 {
        wrong.push(format!("timers fired before their deadlines {} times", seen.early));
    }
    wrong
}

/// Returns what is wrong after a phase with faults.
pub fn with_faults(seen: &Seen, setup: &Setup) -> Vec<String> {
    let mut wrong = in_any_phase(seen, setup);
    let always = [
        (seen.kills, "no worker was killed"),
        (seen.stops, "no worker was stopped beyond its lease"),
        (seen.cuts, "no connection was cut"),
        (seen.repeated, "no statement was repeated"),
        (seen.answers_lost, "no answer was lost"),
    ];
    wrong.extend(missing(&always));
    if setup.has_own_cluster {
        wrong.extend(missing(&[(seen.crashes, "the database did not recover from a crash")]));
    }
    if setup.poll.is_none() {
        let timers = [
            (seen.takeovers, "no hold was taken over"),
            (seen.revocations, "no lease was revoked"),
            (seen.leases_lost, "no worker lost its lease"),
            (seen.refused, "no release was refused for an expired lease"),
            (seen.early, "no release was refused before its deadline"),
            (seen.recovered, "no worker found a claim again whose answer was lost after the last fault"),
        ];
        wrong.extend(missing(&timers));
    }
    wrong
}

fn in_any_phase(seen: &Seen, setup: &Setup) -> Vec<String> {
    let mut wrong = missing(&[(seen.paid, "no hold was paid"), (seen.released, "no hold was released")]);
    // A hold may lose its worker several times.
    let limit = setup.lease * 5;
    if seen.most > limit {
        wrong.push(format!("a hold was released {:.1?} late, and {limit:?} is the limit", seen.most));
    }
    if setup.notifies {
        wrong.extend(missing(&[(seen.notified, "no worker was notified of a hold")]));
    }
    if setup.poll.is_none() && setup.workers > 1 {
        wrong.extend(missing(&[(seen.wrong_clocks, "no worker's clock was wrong")]));
    }
    wrong
}

fn missing(counts: &[(u64, &str)]) -> Vec<String> {
    counts.iter().filter(|(count, _)| *count == 0).map(|(_, what)| (*what).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETUP: Setup =
        Setup { workers: 3, lease: Duration::from_secs(3), poll: None, notifies: true, has_own_cluster: true };

    /// A phase with faults in which all is right.
    fn all() -> Seen {
        let p50 = Duration::from_millis(10);
        let most = Duration::from_secs(6);
        let counts = Seen { p50, most, paid: 1, released: 1, notified: 1, wrong_clocks: 1, ..Seen::default() };
        let workers =
            Seen { early: 1, refused: 1, revocations: 1, leases_lost: 1, takeovers: 1, recovered: 1, ..counts };
        Seen { repeated: 1, answers_lost: 1, kills: 1, stops: 1, cuts: 1, crashes: 1, ..workers }
    }

    #[test]
    fn each_fault_that_struck_nothing_is_named() {
        assert!(with_faults(&all(), &SETUP).is_empty());
        let holes: [fn(&mut Seen) -> &mut u64; 16] = [
            |seen| &mut seen.paid,
            |seen| &mut seen.released,
            |seen| &mut seen.notified,
            |seen| &mut seen.wrong_clocks,
            |seen| &mut seen.kills,
            |seen| &mut seen.stops,
            |seen| &mut seen.cuts,
            |seen| &mut seen.repeated,
            |seen| &mut seen.answers_lost,
            |seen| &mut seen.crashes,
            |seen| &mut seen.takeovers,
            |seen| &mut seen.leases_lost,
            |seen| &mut seen.refused,
            |seen| &mut seen.early,
            |seen| &mut seen.revocations,
            |seen| &mut seen.recovered,
        ];
        for hole in holes {
            let mut seen = all();
            *hole(&mut seen) = 0;
            assert_eq!(with_faults(&seen, &SETUP).len(), 1);
        }
    }

    #[test]
    fn workers_that_poll_need_no_leases() {
        let poll = Setup { poll: Some(Duration::from_secs(1)), notifies: false, has_own_cluster: false, ..SETUP };
        let seen =
            Seen { takeovers: 0, revocations: 0, refused: 0, early: 0, recovered: 0, notified: 0, crashes: 0, ..all() };
        assert!(with_faults(&seen, &poll).is_empty());
        assert!(without_faults(&Seen { p50: Duration::from_millis(1_050), ..seen.clone() }, &poll).is_empty());
        assert_eq!(without_faults(&Seen { p50: Duration::from_millis(1_150), ..seen }, &poll).len(), 1);
    }

    #[test]
    fn a_phase_without_faults_is_punctual_and_keeps_its_leases() {
        let seen = Seen { early: 0, ..all() };
        assert!(without_faults(&seen, &SETUP).is_empty());
        let late = Duration::from_secs(16);
        for seen in [
            Seen { early: 1, ..seen.clone() },
            Seen { leases_lost: 4, ..seen.clone() },
            Seen { p50: Duration::from_millis(101), ..seen.clone() },
            Seen { most: late, ..seen.clone() },
        ] {
            assert_eq!(without_faults(&seen, &SETUP).len(), 1);
        }
        assert!(without_faults(&Seen { early: 1, clocks_set: 1, ..seen }, &SETUP).is_empty());
    }
}
