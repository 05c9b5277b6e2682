//! The statements of a lease. Its expiry is by the database's clock, so a worker's clock cannot prolong it.
//!
//! A statement that ends or renews a lease locks the lease's row, and reads the clock once it has the lock. Releases and
//! claims do the same with a shared lock. So each of them commits before the end is read, or waits for the end and finds
//! the lease ended. Every statement locks in one order: the lease, then holds, then stock.
//!
//! A statement whose connection is lost may still commit, at any time. For a claim this would be a hold without a timer,
//! under a lease that its worker renews. So with each new connection the worker goes on under another lease:
//! [`succeed`](Lease::succeed) ends the last one, waits for its claims, and leaves none to come.

use std::time::Duration;

use crate::Result;
use crate::database::Session;

/// Removes old leases without claims, too, so that the table stays small.
const ACQUIRE: &str = "
    WITH old AS (
        DELETE FROM leases WHERE epoch IN (
            SELECT epoch FROM leases WHERE expires < clock_timestamp() - interval '1 hour'
                AND NOT EXISTS (SELECT FROM holds WHERE holds.epoch = leases.epoch AND ended IS NULL)
            FOR UPDATE SKIP LOCKED))
    INSERT INTO leases (worker, expires) VALUES ($1, clock_timestamp() + $2 * interval '1 millisecond')
    RETURNING epoch";
const RENEW: &str = "
    WITH held AS MATERIALIZED (SELECT epoch, expires FROM leases WHERE epoch = $1 FOR UPDATE)
    UPDATE leases SET expires = clock_timestamp() + $2 * interval '1 millisecond' FROM held
    WHERE leases.epoch = held.epoch AND held.expires > clock_timestamp() RETURNING held.epoch";
/// Does nothing if the lease has ended, so it may run twice. Leaves the holds of a claim for which it has waited: they
/// are those of an ended lease.
const SUCCEED: &str = "
    WITH held AS MATERIALIZED (SELECT epoch, expires FROM leases WHERE epoch = $1 FOR UPDATE),
    living AS MATERIALIZED (SELECT epoch FROM held WHERE expires > clock_timestamp()),
    moved AS (UPDATE holds SET epoch = $2 FROM living WHERE holds.epoch = living.epoch AND ended IS NULL)
    UPDATE leases SET expires = clock_timestamp() FROM living WHERE leases.epoch = living.epoch
    RETURNING living.epoch";
const GIVE_BACK: &str = "
    UPDATE leases SET expires = clock_timestamp() WHERE epoch IN (
        SELECT epoch FROM leases WHERE epoch = $1 AND expires > clock_timestamp() FOR UPDATE)";
/// What the README tells operators to run.
const REVOKE: &str = "
    UPDATE cluster_holds.leases SET expires = clock_timestamp() WHERE epoch IN (
        SELECT epoch FROM cluster_holds.leases WHERE worker = $1 AND expires > clock_timestamp() FOR UPDATE)
    RETURNING epoch";

/// The right of one worker to release the holds that it claims.
#[derive(Clone, Copy)]
pub struct Lease {
    /// Grows with each lease, and for each hold with each worker that claims it: the fence. A release must name it.
    pub epoch: i64,
    duration: Duration,
}

impl Lease {
    pub fn acquire(session: &mut Session, worker: &str, duration: Duration) -> Result<Self> {
        let rows = session.query(ACQUIRE, &[&worker, &millis(duration)])?;
        Ok(Self { epoch: rows[0].get(0), duration })
    }

    /// Prolongs the lease from now on. Returns false if it has expired: its holds may belong to another worker.
    pub fn renew(&self, session: &mut Session) -> Result<bool> {
        Ok(!session.query(RENEW, &[&self.epoch, &millis(self.duration)])?.is_empty())
    }

    /// Returns a lease with a new epoch in place of this one, which has ended then. Moves the holds of this one, unless
    /// it had ended before. Also returns whether it had, or false if a lost connection leaves that open.
    pub fn succeed(self, session: &mut Session, worker: &str) -> Result<(Self, bool)> {
        let later = Self::acquire(session, worker, self.duration)?;
        let connections = session.connections();
        let moved = !session.query(SUCCEED, &[&self.epoch, &later.epoch])?.is_empty();
        Ok((later, !moved && session.connections() == connections))
    }

    /// Ends the lease, so that other workers need not wait for its expiry.
    pub fn give_back(self, session: &mut Session) -> Result<()> {
        session.query(GIVE_BACK, &[&self.epoch]).map(drop)
    }
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Ends the leases of a worker, as an operator does. Returns their number.
pub fn revoke(session: &mut Session, worker: &str) -> Result<u64> {
    Ok(session.query(REVOKE, &[&worker])?.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_revokes_as_the_run_does() {
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let statement = words(REVOKE).replace("$1", "'NAME'").replace(" RETURNING epoch", ";");
        assert!(words(include_str!("../README.md")).contains(&statement), "{statement}");
    }
}
