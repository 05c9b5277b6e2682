//! One worker. Three threads, each with a connection: the *keeper* here renews the lease and claims holds, the
//! *releaser* ends those that are due, and the *listener* wakes the keeper for holds that are nearer than the horizon.

use std::io::{self, Read};
use std::process;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::Result;
use crate::armed::Armed;
use crate::children::{Line, report_statements, tell};
use crate::claim::{self, BATCH, Claimed};
use crate::clock::{self, DatabaseClock, LocalClock};
use crate::database::{Address, Database, Session};
use crate::lease::Lease;
use crate::{listen, poll, release};

/// Pause between two claims for notifications, which may come a thousand times a second.
const COALESCE: Duration = Duration::from_millis(100);

#[derive(clap::Args)]
pub struct Settings {
    #[command(flatten)]
    address: Address,
    /// The worker's name in the table of leases.
    #[arg(long)]
    name: String,
    /// Holds that are due within so many milliseconds are claimed.
    #[arg(long, default_value_t = 60_000)]
    horizon: u64,
    /// A lease lasts so many milliseconds, and is renewed after a third of them.
    #[arg(long, default_value_t = 15_000)]
    lease: u64,
    /// The worker's clock is wrong by so many seconds.
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    skew: i64,
    /// Asks the database for due holds every so many milliseconds, instead of all else.
    #[arg(long)]
    poll: Option<u64>,
}

/// Why the keeper should not wait any longer.
pub enum Wake {
    /// A hold was placed within the horizon.
    Nearer,
    /// The lease may have been lost.
    Doubt,
    /// The worker should end.
    Stop,
}

/// Works until the standard input ends.
pub fn work(settings: &Settings) -> Result<()> {
    let database = Database::new(&settings.address, "worker")?;
    report_statements();
    let (keeper, wakes) = mpsc::channel();
    let stop = keeper.clone();
    thread::spawn(move || {
        io::stdin().read_to_end(&mut Vec::new()).unwrap_or(0);
        stop.send(Wake::Stop).unwrap_or(());
    });
    let mut session = Session::new(&database);
    if let Some(millis) = settings.poll {
        return poll::poll(&mut session, Duration::from_millis(millis), &wakes);
    }

    let clock = DatabaseClock::measure_first(LocalClock::new(settings.skew), &mut session)?;
    let (sender, due) = mpsc::channel();
    let armed = Arc::new(Armed::new(clock, sender)?);
    {
        let (database, keeper, armed) = (database.clone(), keeper.clone(), armed.clone());
        spawn(move || release::release_all(&mut Session::new(&database), &armed, &due, &keeper));
    }
    spawn(move || listen::listen(&database, &keeper));
    let (offset, bound) = armed.offset();
    tell(Line::Note(format!("the database's clock is {:.6} s ahead, give or take {bound} us", offset as f64 / 1e6)));
    keep(settings, &mut session, &armed, &wakes)
}

/// Starts a thread whose failure ends the process. There is nothing to clean up: other workers take over.
fn spawn(run: impl FnOnce() -> Result<()> + Send + 'static) {
    thread::spawn(|| {
        if let Err(error) = run() {
            eprintln!("{error}");
            process::exit(1);
        }
    });
}

fn keep(settings: &Settings, session: &mut Session, armed: &Armed, wakes: &Receiver<Wake>) -> Result<()> {
    let lasts = Duration::from_millis(settings.lease);
    let horizon = Duration::from_millis(settings.horizon);
    // A scan that is late by half a horizon misses no deadline. An expired lease is noticed by a scan.
    let scan_every = (horizon / 2).min(lasts / 3);
    let mut lease = Lease::acquire(session, &settings.name, lasts)?;
    let mut connections = session.connections();
    let mut renew_at = Instant::now() + lasts / 3;
    loop {
        if Instant::now() >= renew_at {
            renew_at = Instant::now() + lasts / 3;
            if !lease.renew(session)? {
                tell(Line::Lost(armed.clear()));
                lease = Lease::acquire(session, &settings.name, lasts)?;
            }
            if armed.measured(clock::measure(&armed.local_clock(), session)?) {
                tell(Line::Note("a clock was set".into()));
            }
        }
        let claimed_at = Instant::now();
        claim_all(|| claim::unclaimed(session, &lease, horizon), &lease, armed)?;
        claim_all(|| claim::expired(session, &lease), &lease, armed)?;
        if session.connections() != connections {
            // The answer to a claim may have been lost: the holds are ours and have no timer.
            connections = session.connections();
            let mut own = claim::own(session, &lease)?;
            armed.retain_unknown(&mut own);
            armed.arm(lease.epoch, &own)?;
        }
        let until = renew_at.min(claimed_at + scan_every);
        match wakes.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Wake::Stop) => return lease.give_back(session),
            Ok(Wake::Doubt) => renew_at = Instant::now(),
            Ok(Wake::Nearer) => {
                thread::sleep((claimed_at + COALESCE).saturating_duration_since(Instant::now()));
                for wake in wakes.try_iter() {
                    match wake {
                        Wake::Stop => return lease.give_back(session),
                        Wake::Doubt => renew_at = Instant::now(),
                        Wake::Nearer => {}
                    }
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err("the other threads have ended".into()),
        }
    }
}

/// Claims until a claim is not full.
fn claim_all(mut claim: impl FnMut() -> Result<Vec<Claimed>>, lease: &Lease, armed: &Armed) -> Result<()> {
    loop {
        let holds = claim()?;
        armed.arm(lease.epoch, &holds)?;
        if holds.len() < BATCH as usize {
            return Ok(());
        }
    }
}

/// Waits for `pause`. Returns whether the worker should end.
pub fn should_stop(wakes: &Receiver<Wake>, pause: Duration) -> bool {
    !matches!(wakes.recv_timeout(pause), Err(RecvTimeoutError::Timeout))
}
