//! The run: a cluster, bad input, a phase without faults, a phase with them, and the verdict.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::Result;
use crate::chaos::Chaos;
use crate::children::{Process, Told};
use crate::cluster::Cluster;
use crate::database::{Database, Session};
use crate::load::{Load, Spent};
use crate::{audit, refusals, schema};

/// A lease is short, so that the run shows many takeovers.
const LEASE: Duration = Duration::from_secs(3);
/// The clocks of the workers are wrong by so many seconds.
const SKEWS: [i64; 3] = [0, 180, -300];
/// Number of shops.
const SHOPS: u64 = 2;
/// Holds that were due this long ago and have not ended are lost.
const GRACE: Duration = Duration::from_secs(30);
/// Patience of the run with a server that it has just started, or that DATABASE_URL names.
const PATIENCE: Duration = Duration::from_secs(5);

const ENDED: &str = "SELECT count(*) FROM ends";

#[derive(clap::Args)]
pub struct Settings {
    /// A server to use instead of a temporary one. Makes and removes a schema there, and does not kill the server.
    #[arg(long = "url", env = "DATABASE_URL", hide_env_values = true)]
    url: Option<String>,
    /// The folder of PostgreSQL's server programs.
    #[arg(long)]
    programs: Option<PathBuf>,
    /// Number of holds in each phase.
    #[arg(long, default_value_t = 20_000)]
    holds: u64,
    /// Holds that are placed in a second, by all shops.
    #[arg(long, default_value_t = 600)]
    rate: u64,
    /// The longest hold, in seconds; the shortest is one second.
    #[arg(long, default_value_t = 20)]
    longest: u64,
    /// Number of workers.
    #[arg(long, default_value_t = 3)]
    workers: usize,
    /// The horizon of the workers, in milliseconds.
    #[arg(long, default_value_t = 5_000)]
    horizon: u64,
    /// The workers poll every so many milliseconds, and set no timers.
    #[arg(long)]
    poll: Option<u64>,
    /// Only the phase without faults.
    #[arg(long)]
    quiet: bool,
    /// Takes less than 40 seconds.
    #[arg(long, conflicts_with_all = ["holds", "rate", "longest"])]
    quick: bool,
}

impl Settings {
    fn scaled(&self) -> (u64, u64, u64) {
        if self.quick { (1_200, 200, 4) } else { (self.holds, self.rate, self.longest) }
    }
}

/// Runs all, and fails if anything is wrong.
pub fn run(settings: &Settings) -> Result<()> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, interrupted.clone())?;
    }
    let mut cluster = match settings.url {
        Some(_) => None,
        None => Some(Cluster::start(settings.programs.as_deref())?),
    };
    let url = settings.url.clone().or_else(|| cluster.as_ref().map(Cluster::url)).ok_or("no server")?;
    let database = Database::parse(&url, PATIENCE, "run")?;
    let version: String = database.connect()?.query_one("SHOW server_version", &[])?.get(0);
    println!("PostgreSQL {version}, {} workers, {SHOPS} shops", settings.workers);

    let mut phase = Phase { settings, database, url, interrupted };
    let tables = Tables::create(&phase)?;
    let refused = {
        let with = refusals::with_tables(&phase.url, &mut Session::new(&phase.database));
        drop(tables);
        with? + refusals::without_tables(&phase.url, cluster.is_some())?
    };
    println!("bad input: {refused} cases, each refused with its message");

    phase.run("without faults", false, &mut cluster)?;
    if !settings.quiet {
        phase.run("with faults", true, &mut cluster)?;
    }
    println!("every hold has ended exactly once; the stock is exact, and none was released early");
    Ok(())
}

/// The tables of one phase, removed when dropped.
struct Tables<'a>(&'a Database);

impl<'a> Tables<'a> {
    fn create(phase: &'a Phase) -> Result<Self> {
        schema::create(&mut phase.database.connect()?, phase.settings.scaled().0 as i32)?;
        Ok(Self(&phase.database))
    }
}

impl Drop for Tables<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.0.connect().and_then(|mut client| schema::remove(&mut client)) {
            eprintln!("the schema cluster_holds could not be removed: {error}");
        }
    }
}

struct Phase<'a> {
    settings: &'a Settings,
    database: Database,
    url: String,
    interrupted: Arc<AtomicBool>,
}

impl Phase<'_> {
    /// Places all holds, waits until they have ended, and checks the database.
    fn run(&mut self, name: &str, with_faults: bool, cluster: &mut Option<Cluster>) -> Result<()> {
        let (holds, rate, longest) = self.settings.scaled();
        let placing = Duration::from_secs_f64(holds as f64 / rate as f64);
        let longest = Duration::from_secs(longest);
        let _tables = Tables::create(self)?;
        let mut session = Session::new(&self.database);
        let server = cluster.as_ref().and_then(Cluster::pid);
        let before = Load::now(&mut session, server)?;
        let told = Arc::new(Told::default());
        let mut workers = Vec::new();
        for index in 0..self.settings.workers {
            workers.push(Some(self.worker(index, &told)?));
        }
        let mut shops = Vec::new();
        for index in 0..SHOPS {
            shops.push(self.shop(index, &told)?);
        }

        let mut chaos = if with_faults { Chaos::plan(placing + longest / 2, LEASE) } else { Chaos::none() };
        let bar = ProgressBar::new(holds);
        bar.set_style(ProgressStyle::with_template("{prefix:15} {wide_bar} {pos}/{len} ended, {elapsed}")?);
        bar.set_prefix(name.to_owned());
        let started = Instant::now();
        let mut count_at = started;
        let mut ended = 0;
        while ended < holds || !chaos.is_over() {
            thread::sleep(Duration::from_millis(20));
            if self.interrupted.load(Ordering::Relaxed) {
                return Err("interrupted".into());
            }
            chaos.strike(
                started.elapsed(),
                &mut workers,
                |index| self.worker(index, &told),
                cluster.as_mut(),
                &mut session,
            )?;
            for process in workers.iter_mut().flatten().chain(&mut shops) {
                if let Some(status) = process.ended()?
                    && !status.success()
                {
                    return Err(format!("a process ended by itself, with {status}").into());
                }
            }
            if Instant::now() >= count_at {
                count_at += Duration::from_millis(500);
                ended = session.query(ENDED, &[])?[0].get::<_, i64>(0) as u64;
                bar.set_position(ended);
            }
            if started.elapsed() > placing * 2 + longest + GRACE {
                bar.abandon();
                let placed = told.placed.load(Ordering::Relaxed);
                let wrong = audit::check(&mut session, holds)?;
                return Err(format!("{name}: not over in time; {placed} placed; {}", wrong.join("; ")).into());
            }
        }
        let took = started.elapsed();
        bar.finish_and_clear();
        for shop in shops {
            if !shop.finish()?.success() {
                return Err("a shop failed".into());
            }
        }
        let spent = Load::now(&mut session, cluster.as_ref().and_then(Cluster::pid))?.since(&before);
        for worker in workers.into_iter().flatten() {
            if !worker.finish()?.success() {
                return Err("a worker failed".into());
            }
        }

        println!("\n{name}: {holds} holds in {took:.1?}");
        let mut wrong = audit::check(&mut session, holds)?;
        println!("  all            {}", audit::lateness(&mut session, None)?);
        if with_faults {
            wrong.extend(self.report_faults(&mut session, &chaos, &told, cluster.is_some())?);
        } else {
            report_load(&spent, told.worker_statements.load(Ordering::Relaxed));
        }
        if wrong.is_empty() { Ok(()) } else { Err(format!("{name}: {}", wrong.join("; ")).into()) }
    }

    /// Prints what the faults did. Returns the faults that struck nothing, as the run has not shown much then.
    fn report_faults(
        &self,
        session: &mut Session,
        chaos: &Chaos,
        told: &Told,
        has_own_cluster: bool,
    ) -> Result<Vec<String>> {
        let takeovers = audit::takeovers(session)?;
        let (refused, lost) = (told.refused.load(Ordering::Relaxed), told.lost.load(Ordering::Relaxed));
        let repeated = told.repeated.load(Ordering::Relaxed);
        if self.settings.poll.is_none() {
            println!("  not taken over {}", audit::lateness(session, Some(false))?);
            println!("  taken over     {}", audit::lateness(session, Some(true))?);
            println!("  takeovers      {takeovers}");
        }
        println!(
            "  faults         {} workers killed, {} stopped, {} connections cut, {} crashes of the database",
            chaos.kills, chaos.stops, chaos.cuts, chaos.crashes
        );
        println!(
            "  seen           {repeated} statements repeated, {lost} leases lost, {refused} releases refused for that"
        );
        let mut missed = Vec::new();
        let mut need = |count: u64, what: &str| {
            if count == 0 {
                missed.push(what.to_owned());
            }
        };
        need(chaos.kills as u64, "no worker was killed");
        need(repeated, "no connection was lost");
        if has_own_cluster {
            need(chaos.crashes as u64, "the database was not killed");
        } else {
            println!("  skipped        the crash of the database, as the server is not the run's own");
        }
        if self.settings.poll.is_none() {
            need(takeovers.leases as u64, "no hold was taken over");
            need(lost, "no worker lost its lease");
        }
        Ok(missed)
    }

    fn worker(&self, index: usize, told: &Arc<Told>) -> Result<Process> {
        let mut arguments = vec![
            format!("--name=worker-{index}"),
            format!("--horizon={}", self.settings.horizon),
            format!("--lease={}", LEASE.as_millis()),
            format!("--skew={}", SKEWS[index % SKEWS.len()]),
        ];
        arguments.extend(self.settings.poll.map(|millis| format!("--poll={millis}")));
        Process::start(&self.url, "worker", &arguments, told)
    }

    fn shop(&self, index: u64, told: &Arc<Told>) -> Result<Process> {
        let (holds, rate, longest) = self.settings.scaled();
        let share = holds / SHOPS + u64::from(index < holds % SHOPS);
        let arguments = [
            format!("--first={}", index * 1_000_000_000),
            format!("--holds={share}"),
            format!("--rate={}", rate.div_ceil(SHOPS)),
            format!("--longest={longest}"),
            // Nobody listens to a shop if the workers poll.
            format!("--horizon={}", if self.settings.poll.is_some() { 0 } else { self.settings.horizon }),
        ];
        Process::start(&self.url, "shop", &arguments, told)
    }
}

fn report_load(spent: &Spent, statements: u64) {
    let Spent { seconds, transactions, processor, workers } = *spent;
    println!(
        "  database       {:.0} transactions a second, {:.1} of them for the workers",
        transactions as f64 / seconds,
        statements as f64 / seconds
    );
    if let (Some(processor), Some(workers)) = (processor, workers) {
        println!(
            "  processor      {:.1} % of a core for the database, {:.2} % for the workers' statements",
            100.0 * processor / seconds,
            100.0 * workers / seconds
        );
    }
}
