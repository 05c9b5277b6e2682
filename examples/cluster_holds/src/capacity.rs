//! How many connections a run needs, and whether the server has room for them.

use postgres::Client;

use crate::Result;
use crate::phase::SHOPS;

/// The limit that leaves the least room: its name, its value, and the connections that it has room for. A superuser has
/// no limit of its own. Other connections of this program end before the run, or belong to a run that refuses this one.
const ROOM: &str = "
    WITH this AS (
        SELECT rolsuper, rolconnlimit, datconnlimit FROM pg_roles, pg_database
        WHERE rolname = session_user AND datname = current_database()),
    limits AS (
        SELECT 'max_connections' AS name, current_setting('max_connections')::integer AS value,
            (SELECT count(*) FROM pg_stat_activity WHERE datid IS NOT NULL AND usesysid IS NOT NULL
                AND application_name NOT LIKE 'cluster_holds %')::integer
            + CASE WHEN rolsuper THEN 0 ELSE current_setting('superuser_reserved_connections')::integer
                + coalesce(current_setting('reserved_connections', true)::integer, 0) END AS taken
        FROM this
        UNION ALL SELECT 'the CONNECTION LIMIT of the role', rolconnlimit, 0 FROM this
        WHERE rolconnlimit >= 0 AND NOT rolsuper
        UNION ALL SELECT 'the CONNECTION LIMIT of the database', datconnlimit, 0 FROM this
        WHERE datconnlimit >= 0 AND NOT rolsuper)
    SELECT name, value, value - taken FROM limits ORDER BY value - taken LIMIT 1";

/// Returns the most connections that a run has at a time.
pub fn needed(workers: u32) -> u32 {
    // Three for each worker and four for each shop, twice: the server ends a lost one late. The run has a few itself.
    (workers * 3 + SHOPS as u32 * 4) * 2 + 8
}

/// Fails if the server has no room for a run.
pub fn check(client: &mut Client, workers: u32) -> Result<()> {
    let row = client.query_one(ROOM, &[])?;
    let (name, value, room): (&str, i32, i32) = (row.get(0), row.get(1), row.get(2));
    let needed = needed(workers) as i32;
    if room < needed {
        return Err(format!(
            "the server has room for {room} connections, and {workers} workers need {needed}: set {name} to {} or use \
             fewer --workers",
            value - room + needed
        )
        .into());
    }
    Ok(())
}
