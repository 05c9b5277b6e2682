//! Bad input, each with the end that it must have: a message that says what to do, and a failure as the exit status. Rows
//! that no shop would write are refused by the database, or released as others.

use std::env;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::Result;
use crate::children::Process;
use crate::database::Session;
use crate::fence::wait;
use crate::schema::VERSION;

/// A process that has not ended by then has accepted its input.
const LIMIT: Duration = Duration::from_secs(15);

/// Rows that the database refuses: a worker could not read them.
const REFUSED_ROWS: [&str; 2] = [
    "INSERT INTO holds (id, item, quantity, due) VALUES (1, 1, 1, 'infinity')",
    "INSERT INTO holds (id, item, quantity, due) VALUES (1, 1, 1, '-infinity')",
];
/// The most pieces, at the earliest and at the latest time that a claim may find, and of a lease that was never there.
const ODD_ROWS: &str = "
    INSERT INTO holds (id, item, quantity, due, epoch) VALUES
        (1, 1, 2147483647, '4713-01-01 BC', NULL), (2, 1, 2147483647, clock_timestamp(), NULL),
        (3, 1, 2147483647, clock_timestamp(), -1)
    ON CONFLICT DO NOTHING";
const UNENDED: &str = "SELECT FROM holds WHERE ended IS NULL";

const RUN: [&str; 3] = ["--workers", "1", "--no-faults"];
const WORKER: [&str; 5] = ["worker", "--name", "refused", "--retry-for", "1"];
const SET_VERSION: &str = "UPDATE schema_version SET version = $1";
const LIMITED: &str = "CREATE ROLE limited LOGIN CONNECTION LIMIT 1";
const SHUT_OUT: &str = "ALTER ROLE limited CONNECTION LIMIT 0";

/// Tries what needs no tables. Returns the number of cases.
pub fn without_tables(url: &str, has_own_cluster: bool) -> Result<usize> {
    expect("no programs", None, &["--programs", "/nonexistent"], "apt-get install postgresql")?;
    expect("a wrong URL", Some("elsewhere"), &WORKER, "not the address of a PostgreSQL server")?;
    expect("no server", Some("host=127.0.0.1 port=1 user=nobody"), &WORKER, "no database for 1 s")?;
    expect("no tables", Some(url), &WORKER, "no tables of this program")?;
    if has_own_cluster {
        expect("no such database", Some(&format!("{url} dbname=nowhere")), &WORKER, "the database refuses")?;
        return Ok(5);
    }
    Ok(4)
}

/// Tries what needs the tables. Returns the number of cases.
pub fn with_tables(url: &str, session: &mut Session, has_own_cluster: bool) -> Result<usize> {
    expect("a second run", Some(url), &RUN, "already has a schema")?;
    session.query(SET_VERSION, &[&(VERSION + 97)])?;
    let refused = expect("another version", Some(url), &WORKER, &format!("the tables have version {}", VERSION + 97));
    session.query(SET_VERSION, &[&VERSION])?;
    refused?;
    rows(url, session)?;
    let tried = 2 + REFUSED_ROWS.len();
    if has_own_cluster {
        session.query(LIMITED, &[])?;
        let limited = format!("{url} user=limited");
        expect("room for one connection", Some(&limited), &RUN, "set the CONNECTION LIMIT of the role to")?;
        session.query(SHUT_OUT, &[])?;
        expect("no free connection", Some(&limited), &WORKER, "or the CONNECTION LIMIT of the role")?;
        return Ok(tried + 2);
    }
    Ok(tried)
}

/// Tries rows that no shop would write. No row may end a worker.
fn rows(url: &str, session: &mut Session) -> Result<()> {
    for row in REFUSED_ROWS {
        match session.query(row, &[]) {
            Err(error) if error.to_string().contains("violates check constraint") => {}
            Err(error) => return Err(error),
            Ok(_) => return Err(format!("the database accepts a row: {row}").into()),
        }
    }
    session.query(ODD_ROWS, &[])?;
    let mut worker = Process::start(url, "worker", &["--name=odd".to_owned()], &Arc::default())?;
    wait("the release of odd rows", || Ok(worker.ended()?.is_some() || session.query(UNENDED, &[])?.is_empty()))?;
    if !worker.finish()?.success() {
        return Err("a row has ended a worker".into());
    }
    Ok(())
}

/// Starts this program, out of reach of the terminal's signals, and compares its end with the one that it must have.
fn expect(what: &str, url: Option<&str>, arguments: &[&str], message: &str) -> Result<()> {
    let mut command = Command::new(env::current_exe()?);
    command.args(arguments).env_remove("DATABASE_URL").envs(url.map(|url| ("DATABASE_URL", url))).process_group(0);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let started = Instant::now();
    while child.try_wait()?.is_none() {
        if started.elapsed() > LIMIT {
            child.kill()?;
            child.wait()?;
            return Err(format!("{what}: the process did not end").into());
        }
        thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.code() != Some(1) || !said.contains(message) || said.contains("panicked") {
        return Err(format!("{what}: the process ended with {} and the message: {said}", output.status).into());
    }
    Ok(())
}
