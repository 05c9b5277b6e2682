//! The run: a cluster, bad input, a fence, revocations, a phase without faults, and a phase with them.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use postgres::Client;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::Result;
use crate::cluster::{Cluster, START_LIMIT};
use crate::database::{Database, Session};
use crate::phase::{LEASE, Phase, SHOPS};
use crate::shop::MOST_PIECES;
use crate::verdict::Setup;
use crate::{bad_input, capacity, fence, in_flight, revocation, schema};

/// How long the run tries to connect to the server that DATABASE_URL names.
const RETRY_FOR: Duration = Duration::from_secs(5);
/// The tables need functions whose body is SQL.
const OLDEST_SERVER: i32 = 14;

#[derive(clap::Args)]
pub struct Settings {
    /// A server to use instead of a temporary one. Makes and removes a schema there, and does not kill the server.
    #[arg(long = "url", env = "DATABASE_URL", hide_env_values = true)]
    url: Option<String>,
    /// The folder of PostgreSQL's server programs.
    #[arg(long)]
    programs: Option<PathBuf>,
    /// Number of holds in each phase.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    holds: u64,
    /// Holds that are placed in a second, by all shops.
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    rate: u64,
    /// The longest hold, in seconds; the shortest is one second.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    longest: u64,
    /// Number of workers.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub workers: u32,
    /// The horizon of the workers, in milliseconds.
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(10..))]
    pub horizon: u64,
    /// The workers poll every so many milliseconds, and set no timers.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub poll: Option<u64>,
    /// Runs only the phase without faults.
    #[arg(long)]
    no_faults: bool,
    /// Runs both phases with few holds, in less than a minute.
    #[arg(long, conflicts_with_all = ["holds", "rate", "longest"])]
    quick: bool,
}

impl Settings {
    /// Returns the number of holds, those that are placed in a second, and the longest hold in seconds.
    pub fn scaled(&self) -> (u64, u64, u64) {
        if self.quick { (2_400, 200, 4) } else { (self.holds, self.rate, self.longest) }
    }

    /// With faults, one of so many answers to workers and to shops is lost. Even at the end of a quick run, some of
    /// them are claims.
    pub fn lose_one_in(&self) -> (u64, u64) {
        if self.quick { (3, 15) } else { (10, 50) }
    }
}

/// Runs all, and fails if anything is wrong.
pub fn run(settings: &Settings) -> Result<()> {
    if settings.workers == 1 && !settings.no_faults {
        return Err(
            "with faults, another worker must be there to take holds over: use --workers 2 or --no-faults".into()
        );
    }
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, interrupted.clone())?;
    }
    let mut cluster = match settings.url {
        Some(_) => None,
        None => Some(Cluster::start(settings.programs.as_deref(), settings.workers)?),
    };
    let url = settings.url.clone().or_else(|| cluster.as_ref().map(Cluster::url)).ok_or("no server")?;
    // Its own server may recover from a crash.
    let retry_for = if cluster.is_some() { START_LIMIT } else { RETRY_FOR };
    let database = Database::parse(&url, retry_for, "run")?;
    let mut client = database.connect()?;
    println!("PostgreSQL {}, {} workers, {SHOPS} shops", version(&mut client)?, settings.workers);
    capacity::check(&mut client, settings.workers)?;
    drop(client);

    let setup = Setup {
        workers: settings.workers as usize,
        lease: LEASE,
        poll: settings.poll.map(Duration::from_millis),
        notifies: settings.poll.is_none() && settings.horizon > 1_000,
        has_own_cluster: cluster.is_some(),
    };
    let phase = Phase { settings, setup, database, url, interrupted };
    let tables = Tables::create(&phase.database, settings)?;
    let tried = bad_input::with_tables(&phase.url, &mut Session::new(&phase.database), cluster.is_some());
    drop(tables);
    let tried = tried? + bad_input::without_tables(&phase.url, cluster.is_some())?;
    println!("bad input: {tried} cases, each refused with its message; odd rows ended no worker");

    // Workers that poll have no leases, hence no epochs.
    if !settings.no_faults && settings.poll.is_none() {
        let tables = Tables::create(&phase.database, settings)?;
        fence::refuses_a_paused_worker(&phase.url, &mut Session::new(&phase.database))?;
        drop(tables);
        let tables = Tables::create(&phase.database, settings)?;
        revocation::waits_for_releases(&phase.database)?;
        drop(tables);
        late_statements(&phase, cluster.as_ref())?;
    }
    phase.run("without faults", false, &mut cluster)?;
    if !settings.no_faults {
        phase.run("with faults", true, &mut cluster)?;
    }
    println!("ok: every hold has ended exactly once; the stock is exact, and none was released early");
    Ok(())
}

/// Lets statements take effect after their sender has gone on, each with tables of its own.
fn late_statements(phase: &Phase, cluster: Option<&Cluster>) -> Result<()> {
    match cluster {
        Some(cluster) => {
            let _tables = Tables::create(&phase.database, phase.settings)?;
            in_flight::finds_claims_that_commit_late(&phase.url, &phase.database, cluster)?;
        }
        None => println!("skipped: claims that commit late, because the run has not started this server"),
    }
    let _tables = Tables::create(&phase.database, phase.settings)?;
    in_flight::refuses_a_renewal_that_waits_too_long(&phase.database)?;
    in_flight::takes_over_from_removed_leases(&phase.database)
}

/// Returns the version of the server, unless it is too old.
fn version(client: &mut Client) -> Result<String> {
    let numbers = "SELECT current_setting('server_version'), current_setting('server_version_num')::integer / 10000";
    let row = client.query_one(numbers, &[])?;
    let version = row.get(0);
    if row.get::<_, i32>(1) < OLDEST_SERVER {
        return Err(format!("the server is PostgreSQL {version}; this program needs {OLDEST_SERVER} or newer").into());
    }
    Ok(version)
}

/// The tables of one phase, removed when dropped.
pub struct Tables<'a>(&'a Database);

impl<'a> Tables<'a> {
    pub fn create(database: &'a Database, settings: &Settings) -> Result<Self> {
        // Enough for all holds, even if each were of the same item.
        schema::create(&mut database.connect()?, settings.scaled().0 as i64 * i64::from(MOST_PIECES))?;
        Ok(Self(database))
    }
}

impl Drop for Tables<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.0.connect().and_then(|mut client| schema::remove(&mut client)) {
            eprintln!("the schema cluster_holds could not be removed: {error}");
        }
    }
}
