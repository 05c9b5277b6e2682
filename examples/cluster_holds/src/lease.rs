//! The statements of a lease. Its expiry is by the database's clock, so a worker's clock cannot prolong it.
//!
//! A statement that ends a lease locks the lease's row, and reads the clock once it has the lock. A release does the
//! same with a shared lock. So a release under the lease commits before the end is read, or waits for the end and
//! finds the lease ended. Every statement locks in one order: the lease, then holds, then stock.

use std::time::Duration;

use crate::Result;
use crate::database::Session;

/// Removes old leases without claims, too, so that the table stays small.
const ACQUIRE: &str = "
    WITH old AS (
        DELETE FROM leases WHERE expires < clock_timestamp() - interval '1 hour'
            AND NOT EXISTS (SELECT FROM holds WHERE holds.epoch = leases.epoch AND ended IS NULL))
    INSERT INTO leases (worker, expires) VALUES ($1, clock_timestamp() + $2 * interval '1 millisecond')
    RETURNING epoch";
const RENEW: &str = "
    UPDATE leases SET expires = clock_timestamp() + $2 * interval '1 millisecond'
    WHERE epoch = $1 AND expires > clock_timestamp() RETURNING epoch";
/// One statement, so the worker has either the old lease or the new one, with all holds.
const SUCCEED: &str = "
    WITH held AS MATERIALIZED (
        SELECT worker FROM leases WHERE epoch = $1 AND expires > clock_timestamp() FOR UPDATE),
    next AS (
        INSERT INTO leases (worker, expires)
        SELECT worker, clock_timestamp() + $2 * interval '1 millisecond' FROM held
        RETURNING epoch),
    moved AS (UPDATE holds SET epoch = next.epoch FROM next WHERE holds.epoch = $1 AND ended IS NULL),
    ended AS (UPDATE leases SET expires = clock_timestamp() WHERE epoch = $1 AND EXISTS (SELECT FROM next))
    SELECT epoch FROM next";
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
    millis: f64,
}

impl Lease {
    pub fn acquire(session: &mut Session, worker: &str, duration: Duration) -> Result<Self> {
        let millis = duration.as_secs_f64() * 1e3;
        let rows = session.query(ACQUIRE, &[&worker, &millis])?;
        Ok(Self { epoch: rows[0].get(0), millis })
    }

    /// Prolongs the lease from now on. Returns false if it has expired: its holds may belong to another worker.
    pub fn renew(&self, session: &mut Session) -> Result<bool> {
        Ok(!session.query(RENEW, &[&self.epoch, &self.millis])?.is_empty())
    }

    /// Returns a lease with a new epoch for the same holds, in place of this one. `None` if this one has expired.
    pub fn succeed(self, session: &mut Session) -> Result<Option<Self>> {
        let rows = session.query(SUCCEED, &[&self.epoch, &self.millis])?;
        Ok(rows.first().map(|row| Self { epoch: row.get(0), ..self }))
    }

    /// Ends the lease, so that other workers need not wait for its expiry.
    pub fn give_back(self, session: &mut Session) -> Result<()> {
        session.query(GIVE_BACK, &[&self.epoch]).map(drop)
    }
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
