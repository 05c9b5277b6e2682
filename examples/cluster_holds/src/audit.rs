//! What must be true in the end, and how late the releases were: all by the database, from its own clock.

use std::fmt;
use std::time::Duration;

use crate::Result;
use crate::database::Session;

/// What must not be, and a query that counts it. `$1` is the number of holds. `ended` is the one reading of the clock
/// that decided about a hold, so the comparisons need no tolerance.
const CHECKS: [(&str, &str); 12] = [
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
         FROM holds LEFT JOIN ends ON hold = id
         WHERE (outcome = 'paid' OR ended IS NULL) AND holds.item = stock.item)",
    ),
    (
        "holds released early",
        "SELECT count(*) + 0 * $1::bigint FROM holds JOIN ends ON hold = id
         WHERE outcome = 'released' AND (at < due OR ended < due)",
    ),
    (
        "holds paid after their deadline",
        "SELECT count(*) + 0 * $1::bigint FROM holds JOIN ends ON hold = id WHERE outcome = 'paid' AND ended >= due",
    ),
    (
        "holds released by a worker that had lost them",
        "SELECT count(*) + 0 * $1::bigint FROM holds JOIN ends ON hold = id
         WHERE outcome = 'released' AND ends.epoch IS DISTINCT FROM holds.epoch",
    ),
    (
        "holds released under an expired lease",
        "SELECT count(*) + 0 * $1::bigint FROM holds JOIN ends ON hold = id JOIN leases ON leases.epoch = ends.epoch
         WHERE outcome = 'released' AND ended >= expires",
    ),
    (
        "holds taken over by an earlier lease",
        "SELECT count(*) + 0 * $1::bigint FROM takeovers WHERE new_epoch <= old_epoch",
    ),
    (
        "holds taken over before their lease had expired",
        "SELECT count(*) + 0 * $1::bigint FROM takeovers WHERE at < expired",
    ),
    (
        "holds claimed while another worker had them",
        "SELECT count(*) + 0 * $1::bigint FROM holds
         LEFT JOIN (SELECT hold, count(DISTINCT old_epoch) AS number FROM takeovers GROUP BY hold) AS lost ON hold = id
         WHERE claims > 1 + coalesce(number, 0)",
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

const LIVING_LEASES: &str = "SELECT count(*) FROM leases WHERE expires > clock_timestamp()";
const PAID: &str = "SELECT count(*) FROM ends WHERE outcome = 'paid'";

/// Returns the number of leases that have not expired.
pub fn living_leases(session: &mut Session) -> Result<i64> {
    Ok(session.query(LIVING_LEASES, &[])?[0].get(0))
}

/// Returns the number of holds that were paid.
pub fn paid(session: &mut Session) -> Result<i64> {
    Ok(session.query(PAID, &[])?[0].get(0))
}

/// How late holds were released.
pub struct Lateness {
    pub count: i64,
    pub p50: Duration,
    p99: Duration,
    pub most: Duration,
}

const LATENESS: &str = "
    SELECT count(*), coalesce(percentile_disc(ARRAY[0.5, 0.99, 1.0]) WITHIN GROUP (ORDER BY micros(at) - micros(due)),
                              ARRAY[0, 0, 0]::bigint[])
    FROM ends JOIN holds ON hold = id WHERE outcome = 'released' AND ($1::boolean IS NULL OR (claims > 1) = $1)";

/// Returns the lateness of all releases, or of those whose holds were or were not taken over from another worker.
pub fn lateness(session: &mut Session, taken_over: Option<bool>) -> Result<Lateness> {
    let row = &session.query(LATENESS, &[&taken_over])?[0];
    let quantiles: Vec<i64> = row.get(1);
    let quantile = |index: usize| Duration::from_micros(quantiles[index].max(0) as u64);
    Ok(Lateness { count: row.get(0), p50: quantile(0), p99: quantile(1), most: quantile(2) })
}

impl fmt::Display for Lateness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [p50, p99, most] = [self.p50, self.p99, self.most].map(|late| late.as_secs_f64() * 1e3);
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
    FROM (SELECT count(*) AS holds, max(micros(at) - micros(expired)) AS waited
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
