//! The tables, and their version. All are in a schema of their own, so the server may have other data.

use std::fmt;

use postgres::Client;
use postgres::error::SqlState;

use crate::Result;
use crate::database::Chain;

/// The version that this program reads and writes.
pub const VERSION: i32 = 3;
/// Number of different items.
pub const ITEMS: i32 = 500;

/// Creates the tables, with so many pieces of each item.
pub fn create(client: &mut Client, pieces: i64) -> Result<()> {
    let exists = "SELECT FROM information_schema.schemata WHERE schema_name = 'cluster_holds'";
    if !client.query(exists, &[])?.is_empty() {
        return Err(
            "the database already has a schema cluster_holds, of another run or version. Unless another run uses it: \
                    DROP SCHEMA cluster_holds CASCADE"
                .into(),
        );
    }
    let mut change = client.transaction()?;
    change.batch_execute(include_str!("schema.sql"))?;
    change.execute("INSERT INTO schema_version VALUES ($1)", &[&VERSION])?;
    change.execute("INSERT INTO stock SELECT item, $1, $1 FROM generate_series(1, $2) AS item", &[&pieces, &ITEMS])?;
    change.commit()?;
    Ok(())
}

/// Removes the tables and all that is in them.
pub fn remove(client: &mut Client) -> Result<()> {
    Ok(client.batch_execute("DROP SCHEMA cluster_holds CASCADE")?)
}

/// Makes statements refer to the tables of this program. Refuses tables of another version.
pub fn check(client: &mut Client) -> Result<(), Unusable> {
    client.batch_execute("SET search_path = cluster_holds").map_err(Unusable::Failed)?;
    let row = match client.query_one("SELECT version FROM schema_version", &[]) {
        Ok(row) => row,
        Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => return Err(Unusable::Missing),
        Err(error) => return Err(Unusable::Failed(error)),
    };
    match row.get(0) {
        VERSION => Ok(()),
        other => Err(Unusable::OtherVersion(other)),
    }
}

/// Why the tables cannot be used.
pub enum Unusable {
    Missing,
    OtherVersion(i32),
    Failed(postgres::Error),
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => {
                write!(f, "the database has no tables of this program; `cluster_holds` without a role makes them")
            }
            Self::OtherVersion(version) => write!(
                f,
                "the tables have version {version}, and this program is for version {VERSION}: use the program of that \
                 version"
            ),
            Self::Failed(error) => write!(f, "the version of the tables cannot be read: {}", Chain(error)),
        }
    }
}
