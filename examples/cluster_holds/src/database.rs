//! Connections that are made anew, and errors that last.
//!
//! A [`Session`] repeats a statement whose connection was lost. It cannot know whether the first one was committed, or
//! will be, even after the second one. So each statement of this program is a transaction of its own that may run twice.

use std::collections::HashMap;
use std::error::Error;
use std::time::{Duration, Instant};
use std::{fmt, io, thread};

use clap::Args;
use postgres::config::Config;
use postgres::error::SqlState;
use postgres::types::ToSql;
use postgres::{Client, NoTls, Row, Statement};

use crate::Result;
use crate::counts::{Event, count};
use crate::schema;

/// Pauses between two attempts to connect. Each is twice the last, and drawn between its half and its whole.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(500));
/// A server that accepts no connection, or acknowledges no packet, for this long is treated as lost.
const UNRESPONSIVE: Duration = Duration::from_secs(5);
/// What to do when the server has no free connection.
const TOO_FEW: &str = ". Raise max_connections, or the CONNECTION LIMIT of the role or the database";

/// Where the database is.
#[derive(Args, Clone)]
pub struct Address {
    /// The server: a URL, or `host=... user=...`.
    #[arg(long = "url", env = "DATABASE_URL", hide_env_values = true)]
    url: String,
    /// How long a process tries to connect before it gives up, in seconds.
    #[arg(long, default_value_t = 60)]
    retry_for: u64,
    /// Drops the connection instead of reading one in so many answers that have rows.
    #[arg(long, value_parser = clap::value_parser!(u64).range(2..))]
    lose_one_in: Option<u64>,
}

/// A server to connect to.
#[derive(Clone)]
pub struct Database {
    config: Config,
    retry_for: Duration,
    lose_one_in: Option<u64>,
}

impl Database {
    /// Reads the address, and connects to nothing yet. Other users of the server see the connections as `role`.
    pub fn new(address: &Address, role: &str) -> Result<Self> {
        let database = Self::parse(&address.url, Duration::from_secs(address.retry_for), role)?;
        Ok(Self { lose_one_in: address.lose_one_in, ..database })
    }

    /// Reads the address of a server to which a process connects within `retry_for`.
    pub fn parse(url: &str, retry_for: Duration, role: &str) -> Result<Self> {
        let mut config: Config = url.parse().map_err(|error: postgres::Error| {
            format!("DATABASE_URL is not the address of a PostgreSQL server: {}", Chain(&error))
        })?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err("DATABASE_URL is not the address of a PostgreSQL server: it names no host".into());
        }
        config.application_name(&format!("cluster_holds {role}"));
        config.connect_timeout(UNRESPONSIVE).tcp_user_timeout(UNRESPONSIVE).keepalives_idle(UNRESPONSIVE);
        Ok(Self { config, retry_for, lose_one_in: None })
    }

    /// Connects without a look at the tables. Tries again until `retry_for` is over.
    pub fn connect(&self) -> Result<Client> {
        let started = Instant::now();
        let mut pause = BACKOFF.0;
        loop {
            let error = match self.config.connect(NoTls) {
                Ok(client) => return Ok(client),
                Err(error) => error,
            };
            if !may_pass(&error) {
                return Err(format!("the database refuses: {}", Chain(&error)).into());
            }
            if started.elapsed() >= self.retry_for {
                let (missing, advice) = match error.code() {
                    Some(&SqlState::TOO_MANY_CONNECTIONS) => ("free connection", TOO_FEW),
                    _ => ("database", ""),
                };
                let seconds = self.retry_for.as_secs();
                return Err(format!("no {missing} for {seconds} s: {}{advice}", Chain(&error)).into());
            }
            thread::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0));
            pause = (pause * 2).min(BACKOFF.1);
        }
    }

    /// Connects, and checks that the tables are those of this program.
    fn connect_checked(&self) -> Result<Client> {
        loop {
            let mut client = self.connect()?;
            match schema::check(&mut client) {
                Ok(()) => return Ok(client),
                Err(schema::Unusable::Failed(error)) if may_pass(&error) => {}
                Err(unusable) => return Err(unusable.to_string().into()),
            }
        }
    }
}

/// A connection for statements, made anew whenever it is lost.
pub struct Session {
    database: Database,
    open: Option<Open>,
    connections: u64,
}

struct Open {
    client: Client,
    prepared: HashMap<&'static str, Statement>,
}

impl Session {
    pub fn new(database: &Database) -> Self {
        Self { database: database.clone(), open: None, connections: 0 }
    }

    /// Returns how many connections this session has had. A caller that sees it change may have lost an answer,
    /// or have a statement that commits later.
    pub fn connections(&self) -> u64 {
        self.connections
    }

    /// Runs one statement, which must be correct when it runs twice. Fails only if it can never succeed, or if the
    /// server is out of reach for too long.
    pub fn query(&mut self, sql: &'static str, parameters: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>> {
        loop {
            match self.client()?.query(sql, parameters) {
                Ok(rows) if !rows.is_empty() && self.loses_answer() => {
                    count(Event::AnswerLost);
                    self.open = None;
                }
                Ok(rows) => return Ok(rows),
                Err(error) if may_pass(&error) => self.recover(&error),
                Err(error) => return Err(format!("a statement failed: {}", Chain(&error)).into()),
            }
        }
    }

    /// Runs `receive` on a connection. Drops the connection and returns `None` if the connection was lost.
    pub fn try_with<T>(
        &mut self,
        receive: impl FnOnce(&mut Client) -> Result<T, postgres::Error>,
    ) -> Result<Option<T>> {
        match receive(&mut self.client()?.client) {
            Ok(value) => Ok(Some(value)),
            Err(error) if may_pass(&error) => {
                self.recover(&error);
                Ok(None)
            }
            Err(error) => Err(format!("a statement failed: {}", Chain(&error)).into()),
        }
    }

    fn client(&mut self) -> Result<&mut Open> {
        if self.open.is_none() {
            let client = self.database.connect_checked()?;
            self.connections += 1;
            self.open = Some(Open { client, prepared: HashMap::new() });
        }
        self.open.as_mut().ok_or_else(|| "not connected".into())
    }

    /// Draws whether an answer is lost: the database has committed the statement, and this process does not learn it.
    fn loses_answer(&self) -> bool {
        self.database.lose_one_in.is_some_and(|number| fastrand::u64(..number) == 0)
    }

    /// After a deadlock or a serialization failure the connection is still good.
    fn recover(&mut self, error: &postgres::Error) {
        count(Event::Repeated);
        if error.code().is_none_or(|code| !code.code().starts_with("40")) {
            self.open = None;
        }
    }
}

impl Open {
    fn query(&mut self, sql: &'static str, parameters: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, postgres::Error> {
        let statement = match self.prepared.get(sql) {
            Some(statement) => statement.clone(),
            None => {
                let statement = self.client.prepare(sql)?;
                self.prepared.insert(sql, statement.clone());
                statement
            }
        };
        count(Event::Statement);
        self.client.query(&statement, parameters)
    }
}

/// Returns whether the same statement may succeed later: the connection was lost or refused, the server starts or
/// stops, it lacks resources, or the transaction lost against another one.
fn may_pass(error: &postgres::Error) -> bool {
    let Some(code) = error.code() else {
        // The server has not answered: the connection failed, or the caller made a mistake.
        let cause = error.source().is_some_and(|cause| cause.is::<io::Error>());
        return cause || error.is_closed() || error.to_string().contains("timeout");
    };
    let temporary = [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN, SqlState::CANNOT_CONNECT_NOW];
    temporary.contains(code) || ["08", "40", "53"].iter().any(|class| code.code().starts_with(class))
}

/// An error with its causes: `postgres` leaves the server's message to the cause.
pub struct Chain<'a>(pub &'a (dyn Error + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}
