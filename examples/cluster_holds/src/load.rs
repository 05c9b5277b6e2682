//! What the database had to do: transactions by its own count, and processor time of its processes.

use std::fs;
use std::time::{Duration, Instant};

use nix::unistd::{SysconfVar, sysconf};

use crate::Result;
use crate::database::Session;

const TRANSACTIONS: &str =
    "SELECT (xact_commit + xact_rollback)::bigint FROM pg_stat_database WHERE datname = current_database()";
const WORKERS: &str = "SELECT pid FROM pg_stat_activity WHERE application_name = 'cluster_holds worker'";

/// The counters at one moment.
pub struct Load {
    at: Instant,
    transactions: i64,
    /// Of all processes of the server. Only known for a server that this run has started, and that was not restarted.
    processor: Option<Duration>,
    /// Of those that serve the workers.
    workers: Option<Duration>,
}

/// What happened between two moments.
pub struct Spent {
    pub seconds: f64,
    /// Unknown if the server has forgotten its count: a crash does that.
    pub transactions: Option<i64>,
    pub processor: Option<f64>,
    pub workers: Option<f64>,
}

impl Load {
    pub fn now(session: &mut Session, server: Option<u32>) -> Result<Self> {
        let transactions = session.query(TRANSACTIONS, &[])?[0].get(0);
        let workers = match server {
            None => None,
            Some(_) => {
                let pids = session.query(WORKERS, &[])?;
                let times = pids.iter().filter_map(|row| Times::of(row.get::<_, i32>(0) as u32));
                Some(times.map(|times| times.own).sum())
            }
        };
        Ok(Self { at: Instant::now(), transactions, processor: server.and_then(all), workers })
    }

    pub fn since(&self, earlier: &Self) -> Spent {
        let between = |now: Option<Duration>, then: Option<Duration>| Some(now?.checked_sub(then?)?.as_secs_f64());
        Spent {
            seconds: (self.at - earlier.at).as_secs_f64(),
            transactions: Some(self.transactions - earlier.transactions).filter(|count| *count >= 0),
            processor: between(self.processor, earlier.processor),
            workers: between(self.workers, earlier.workers),
        }
    }
}

/// Returns the processor time of the server and all its processes, the ended ones included.
fn all(server: u32) -> Option<Duration> {
    let main = Times::of(server)?;
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let times = processes.filter_map(|process| Times::of(process.file_name().to_str()?.parse().ok()?));
    let children: Duration = times.filter(|times| times.parent == server).map(|times| times.own).sum();
    Some(main.own + main.ended + children)
}

/// Processor times of one process, from the system.
struct Times {
    parent: u32,
    own: Duration,
    /// Of its processes that have ended.
    ended: Duration,
}

impl Times {
    fn of(process: u32) -> Option<Self> {
        let line = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // The name of the program is in parentheses and may contain spaces. The state follows, then the parent.
        let fields: Vec<u64> =
            line.rsplit_once(')')?.1.split_whitespace().skip(1).map(|field| field.parse().unwrap_or(0)).collect();
        let ticks = sysconf(SysconfVar::CLK_TCK).ok()?? as f64;
        let time =
            |from: usize| Some(Duration::from_secs_f64((fields.get(from)? + fields.get(from + 1)?) as f64 / ticks));
        Some(Self { parent: *fields.first()? as u32, own: time(10)?, ended: time(12)? })
    }
}
