//! Checks that the server closed exactly the stalled connections, each on time and by the right timer.

use std::collections::HashMap;
use std::time::Duration;

use crate::client::{Habit, Outcome};
use crate::connection::Closed;
use crate::timeouts::Timeouts;

/// The records of the server and of the load, compared.
pub struct Verdict {
    pub habits: Vec<Habit>,
    /// Lateness of each close by the server's record, in ascending order.
    pub as_closed: Vec<Duration>,
    /// The same by the load's record.
    pub as_seen: Vec<Duration>,
    pub faults: Vec<String>,
}

impl Verdict {
    pub fn of(outcomes: &[Outcome], closed: Vec<Closed>, timeouts: Timeouts, late: Duration) -> Self {
        let mut verdict = Self {
            habits: outcomes.iter().map(|outcome| outcome.habit).collect(),
            as_closed: Vec::new(),
            as_seen: Vec::new(),
            faults: Vec::new(),
        };
        let mut closed: HashMap<_, _> = closed.into_iter().map(|closed| (closed.peer, closed)).collect();
        for outcome in outcomes {
            if let Err(fault) = verdict.judge(outcome, closed.remove(&outcome.address), timeouts, late) {
                verdict.faults.push(format!("{} ({}) {fault}", outcome.address, outcome.habit.name()));
            }
        }
        verdict.faults.extend(closed.keys().map(|peer| format!("{peer} was closed, but is no connection of the load")));
        verdict.as_closed.sort_unstable();
        verdict.as_seen.sort_unstable();
        verdict
    }

    fn judge(
        &mut self,
        outcome: &Outcome,
        closed: Option<Closed>,
        timeouts: Timeouts,
        late: Duration,
    ) -> Result<(), String> {
        match (outcome.habit.closed_by(), closed, outcome.closed_after) {
            (None, None, None) => Ok(()),
            (Some(timeout), Some(closed), Some(seen)) if closed.timeout == timeout => {
                let allowed = timeouts.of(timeout);
                self.as_closed.push(lateness(closed.at - closed.since, allowed, late)?);
                self.as_seen.push(lateness(seen, allowed, late)?);
                Ok(())
            }
            (None, Some(closed), _) => Err(format!("was closed by its {}", closed.timeout)),
            (Some(timeout), Some(closed), _) if closed.timeout != timeout => {
                Err(format!("was closed by its {}, not by its {timeout}", closed.timeout))
            }
            (Some(_), Some(_), None) => Err("was closed, but did not notice it".to_owned()),
            (Some(_), None, None) => Err("was not closed".to_owned()),
            (_, None, Some(_)) | (Some(_), Some(_), Some(_)) => Err("was closed by no timer".to_owned()),
        }
    }
}

fn lateness(taken: Duration, allowed: Duration, late: Duration) -> Result<Duration, String> {
    match taken.checked_sub(allowed) {
        None => Err(format!("was closed {:?} early", allowed - taken)),
        Some(lateness) if lateness > late => Err(format!("was closed {lateness:?} late")),
        Some(lateness) => Ok(lateness),
    }
}
