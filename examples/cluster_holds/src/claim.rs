//! The statements that claim holds for a lease. Two workers may claim at once: `SKIP LOCKED` gives them different
//! holds, and neither waits for the other. A claim locks its lease before it reads the clock, as
//! [`lease`](crate::lease) says why.

use std::time::Duration;

use postgres::Row;

use crate::Result;
use crate::database::Session;
use crate::lease::Lease;

/// Maximum number of holds that one statement claims. A smaller number shares the work better.
pub const BATCH: i64 = 500;

/// Reads the index `holds_unclaimed`, from its beginning to the horizon.
const UNCLAIMED: &str = "
    WITH held AS MATERIALIZED (SELECT expires FROM leases WHERE epoch = $1 FOR SHARE),
    picked AS MATERIALIZED (
        SELECT id FROM holds
        WHERE ended IS NULL AND epoch IS NULL AND due < clock_timestamp() + $2 * interval '1 millisecond'
            AND EXISTS (SELECT FROM held WHERE expires > clock_timestamp())
        ORDER BY due LIMIT $3 FOR UPDATE SKIP LOCKED)
    UPDATE holds SET epoch = $1, claims = claims + 1 FROM picked WHERE holds.id = picked.id
    RETURNING holds.id, micros(due)";
/// Reads the index `holds_claimed` for each dead lease of a smaller epoch, so the epochs of a hold only grow. A renewal
/// that has locked its lease before the expiry, and commits after it, loses the holds that are claimed here: their rows
/// decide. Without a dead lease, nothing is locked.
const EXPIRED: &str = "
    WITH dead AS MATERIALIZED (SELECT epoch, expires FROM dead_leases WHERE epoch < $1),
    held AS MATERIALIZED (SELECT expires FROM leases WHERE epoch = $1 AND EXISTS (SELECT FROM dead) FOR SHARE),
    picked AS MATERIALIZED (
        SELECT holds.id, dead.epoch, dead.expires FROM holds JOIN dead USING (epoch)
        WHERE ended IS NULL AND EXISTS (SELECT FROM held WHERE expires > clock_timestamp())
        ORDER BY due LIMIT $2 FOR UPDATE OF holds SKIP LOCKED),
    noted AS (
        INSERT INTO takeovers (hold, old_epoch, new_epoch, expired, at)
        SELECT id, epoch, $1, expires, clock_timestamp() FROM picked)
    UPDATE holds SET epoch = $1, claims = claims + 1 FROM picked WHERE holds.id = picked.id
    RETURNING holds.id, micros(due)";
const LATER: &str = "SELECT FROM dead_leases WHERE epoch > $1 LIMIT 1";
const OWN: &str = "SELECT id, micros(due) FROM holds WHERE epoch = $1 AND ended IS NULL";

/// A claimed hold, and its deadline in microseconds of the database's clock.
#[derive(Clone, Copy)]
pub struct Claimed {
    pub id: i64,
    pub due: i64,
}

fn claimed(rows: &[Row]) -> Vec<Claimed> {
    rows.iter().map(|row| Claimed { id: row.get(0), due: row.get(1) }).collect()
}

/// Claims holds that no worker has claimed and that are due within the horizon.
pub fn unclaimed(session: &mut Session, lease: &Lease, horizon: Duration) -> Result<Vec<Claimed>> {
    let millis = horizon.as_secs_f64() * 1e3;
    Ok(claimed(&session.query(UNCLAIMED, &[&lease.epoch, &millis, &BATCH])?))
}

/// Takes over holds whose lease is dead.
pub fn expired(session: &mut Session, lease: &Lease) -> Result<Vec<Claimed>> {
    Ok(claimed(&session.query(EXPIRED, &[&lease.epoch, &BATCH])?))
}

/// Returns whether a later lease is dead that has left holds. Only a lease that is later still can take them over.
pub fn needs_later(session: &mut Session, lease: &Lease) -> Result<bool> {
    Ok(!session.query(LATER, &[&lease.epoch])?.is_empty())
}

/// Returns the holds of the lease that have not ended.
pub fn own(session: &mut Session, lease: &Lease) -> Result<Vec<Claimed>> {
    Ok(claimed(&session.query(OWN, &[&lease.epoch])?))
}
