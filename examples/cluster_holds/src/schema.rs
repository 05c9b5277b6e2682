//! The tables, and their version. All are in a schema of their own, so that a server with other data may be used.

use std::fmt;

use postgres::Client;
use postgres::error::SqlState;

use crate::Result;
use crate::database::Chain;

/// The version that this program reads and writes.
pub const VERSION: i32 = 1;
/// Number of different items, each with stock for every hold.
pub const ITEMS: i32 = 500;

/// Creates the tables, with so many pieces of each item.
pub fn create(client: &mut Client, pieces: i32) -> Result<()> {
    let exists = "SELECT FROM information_schema.schemata WHERE schema_name = 'cluster_holds'";
    if !client.query(exists, &[])?.is_empty() {
        return Err("the database already has a schema cluster_holds, of another run or version. If nobody needs it: \
                    DROP SCHEMA cluster_holds CASCADE"
            .into());
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

/// Makes the tables those that statements refer to. Refuses tables of another version.
pub fn check(client: &mut Client) -> Result<(), Refused> {
    client.batch_execute("SET search_path = cluster_holds").map_err(Refused::Failed)?;
    let row = match client.query_one("SELECT version FROM schema_version", &[]) {
        Ok(row) => row,
        Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => return Err(Refused::None),
        Err(error) => return Err(Refused::Failed(error)),
    };
    match row.get(0) {
        VERSION => Ok(()),
        other => Err(Refused::Other(other)),
    }
}

/// Why the tables cannot be used.
pub enum Refused {
    None,
    Other(i32),
    Failed(postgres::Error),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => {
                write!(f, "the database has no tables of this program; `cluster_holds` without a role makes them")
            }
            Self::Other(version) => write!(
                f,
                "the tables have version {version}, and this program is for version {VERSION}: use the program of that version"
            ),
            Self::Failed(error) => write!(f, "the version of the tables cannot be read: {}", Chain(error)),
        }
    }
}
