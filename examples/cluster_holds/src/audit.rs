//! What must be true in the end, and how late the releases were: all by the database, from its own clock.

use std::fmt;
use std::time::Duration;

use crate::Result;
use crate::database::Session;

/// What must not be, and a query that counts it. `$1` is the number of holds.
const CHECKS: [(&str, &str); 8] = [
    ("holds too few or too many", "SELECT abs(count(*) - $1::bigint) FROM holds"),
    ("holds that have not ended", "SELECT count(*) + 0 * $1::bigint FROM holds WHERE ended IS NULL"),
    (
        "holds that ended not exactly once",
        "SELECT count(*) + 0 * $1::bigint FROM (SELECT id FROM holds LEFT JOIN ends ON hold = id
         GROUP BY id HAVING count(hold) <> 1) AS wrong",
    ),
    ("ends too few or too many", "SELECT abs(count(*) - $1::bigint) FROM ends"),
    (
        "items whose stock is wrong",
        "SELECT count(*) + 0 * $1::bigint FROM stock WHERE free <> total - (SELECT coalesce(sum(quantity), 0)
         FROM holds JOIN ends ON hold = id WHERE outcome = 'paid' AND holds.item = stock.item)",
    ),
    (
        "holds released early",
        "SELECT count(*) + 0 * $1::bigint FROM holds JOIN ends ON hold = id WHERE outcome = 'released' AND (at < due OR ended < due)",
    ),
    (
        "holds paid after their deadline",
        // The clock is read for the check and again for `ended`; a busy machine may stop the server in between.
        "SELECT count(*) + 0 * $1::bigint FROM holds JOIN ends ON hold = id WHERE outcome = 'paid' AND ended > due + interval '1 second'",
    ),
    (
        "holds released by a worker that had lost them",
        "SELECT count(*) + 0 * $1::bigint FROM holds JOIN ends ON hold = id
         WHERE outcome = 'released' AND ends.epoch IS DISTINCT FROM holds.epoch",
    ),
];

/// Returns what is wrong, a line each.
pub fn check(session: &mut Session, holds: u64) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for (what, sql) in CHECKS {
        let count: i64 = session.query(sql, &[&(holds as i64)])?[0].get(0);
        if count != 0 {
            wrong.push(format!("{what}: {count}"));
        }
    }
    Ok(wrong)
}

/// How late holds were released.
pub struct Lateness {
    pub count: i64,
    /// At p50 and p99, and the most, in microseconds.
    quantiles: Vec<i64>,
}

const LATENESS: &str = "
    SELECT count(*), coalesce(percentile_disc(ARRAY[0.5, 0.99, 1.0]) WITHIN GROUP (ORDER BY micros(at) - micros(due)),
                              ARRAY[0, 0, 0]::bigint[])
    FROM ends JOIN holds ON hold = id WHERE outcome = 'released' AND ($1::boolean IS NULL OR (takeovers > 0) = $1)";

/// Returns the lateness of all releases, or of those whose holds were or were not taken over from another worker.
pub fn lateness(session: &mut Session, taken_over: Option<bool>) -> Result<Lateness> {
    let row = &session.query(LATENESS, &[&taken_over])?[0];
    Ok(Lateness { count: row.get(0), quantiles: row.get(1) })
}

impl fmt::Display for Lateness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis: Vec<_> = self.quantiles.iter().map(|&micros| micros as f64 / 1e3).collect();
        let [p50, p99, most] = millis[..] else { return Err(fmt::Error) };
        write!(
            f,
            "{:>7} releases, late by {p50:>8.2} ms at p50, {p99:>8.2} ms at p99, {most:>8.2} ms at most",
            self.count
        )
    }
}

/// What takeovers cost in total.
pub struct Takeovers {
    /// Number of leases whose holds were taken over.
    pub leases: i64,
    holds: i64,
    /// From the expiry of a lease to the last claim of its holds: the median and the most, in microseconds.
    waited: [i64; 2],
}

const TAKEOVERS: &str = "
    SELECT count(*), coalesce(sum(holds), 0)::bigint,
        coalesce(percentile_disc(0.5) WITHIN GROUP (ORDER BY waited), 0), coalesce(max(waited), 0)
    FROM (SELECT sum(holds) AS holds, max(micros(at) - micros(expired)) AS waited
          FROM takeovers GROUP BY old_epoch) AS lease";

pub fn takeovers(session: &mut Session) -> Result<Takeovers> {
    let row = &session.query(TAKEOVERS, &[])?[0];
    Ok(Takeovers { leases: row.get(0), holds: row.get(1), waited: [row.get(2), row.get(3)] })
}

impl fmt::Display for Takeovers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [median, most] = self.waited.map(|micros| Duration::from_micros(micros.max(0) as u64));
        write!(
            f,
            "{} leases with {} holds; all claimed {median:.0?} (median), {most:.0?} (most) after the lease expired",
            self.leases, self.holds
        )
    }
}
