//! The statements of a lease. Its expiry is by the database's clock, so a worker's clock cannot prolong it.

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
const GIVE_BACK: &str =
    "UPDATE leases SET expires = clock_timestamp() WHERE epoch = $1 AND expires > clock_timestamp()";

/// The right of one worker to release the holds that it claims.
#[derive(Clone, Copy)]
pub struct Lease {
    /// Grows with each lease: the fence. A release must name it.
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

    /// Ends the lease, so that other workers need not wait for its expiry.
    pub fn give_back(self, session: &mut Session) -> Result<()> {
        session.query(GIVE_BACK, &[&self.epoch]).map(drop)
    }
}
