//! One worker: three threads, each with a connection. The *keeper*, in this file, renews the lease and claims holds.
//! The *releaser* ends those that are due. The *listener* wakes the keeper for holds that are nearer than the horizon.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::process;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::Result;
use crate::armed::Armed;
use crate::children::wait_for_the_run;
use crate::claim::{self, BATCH, Claimed};
use crate::clock::{self, DatabaseClock, LocalClock};
use crate::counts::{Event, count, keep_printing_counts};
use crate::database::{Address, Database, Session};
use crate::lease::Lease;
use crate::release::Releases;
use crate::store::Writer;
use crate::{listen, poll, release};

/// Pause between two claims for notifications, which may come a thousand times a second.
const COALESCE: Duration = Duration::from_millis(100);

/// Time in which a worker gives its lease back.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// Seconds by which a clock may be wrong: 30 years.
const SKEWS: RangeInclusive<i64> = -1_000_000_000..=1_000_000_000;

#[derive(clap::Args)]
pub struct Settings {
    #[command(flatten)]
    address: Address,
    /// The worker's name in the table of leases.
    #[arg(long)]
    name: String,
    /// Holds that are due within so many milliseconds are claimed.
    #[arg(long, default_value_t = 60_000, value_parser = clap::value_parser!(u64).range(10..))]
    horizon: u64,
    /// A lease lasts so many milliseconds, and is renewed after a third of them.
    #[arg(long, default_value_t = 15_000, value_parser = clap::value_parser!(u64).range(100..))]
    lease: u64,
    /// The worker's clock is wrong by so many seconds.
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(i64).range(SKEWS))]
    skew: i64,
    /// The timers fire so many milliseconds too early, as those of a fast clock do.
    #[arg(long, default_value_t = 0)]
    early: u64,
    /// Asks the database for due holds every so many milliseconds, instead of all else.
    #[arg(long)]
    poll: Option<u64>,
    /// A store outside the database, to which each release is written first.
    #[arg(long, conflicts_with = "poll")]
    store: Option<SocketAddr>,
    /// The worker stops itself right before each write to the store, until it gets SIGCONT.
    #[arg(long, requires = "store")]
    stop_before_write: bool,
}

/// Why the keeper should wait no longer.
pub enum Wake {
    /// A hold was placed within the horizon.
    Nearer,
    /// The database refused a release: the lease has expired.
    Expired,
    /// The worker should end.
    Stop,
}

/// Works until the standard input ends.
pub fn work(settings: &Settings) -> Result<()> {
    let database = Database::new(&settings.address, "worker")?;
    keep_printing_counts();
    let (keeper, wakes) = mpsc::channel();
    let stop = keeper.clone();
    thread::spawn(move || {
        wait_for_the_run();
        stop.send(Wake::Stop).unwrap_or(());
        // The run was killed, and its database with it: there is nothing to give back.
        thread::sleep(STOP_LIMIT);
        process::exit(1);
    });
    let mut session = Session::new(&database);
    if let Some(millis) = settings.poll {
        return poll::poll(&mut session, Duration::from_millis(millis), &wakes);
    }

    let early = Duration::from_millis(settings.early);
    let clock = DatabaseClock::measure_first(LocalClock::new(settings.skew), early, &mut session)?;
    if clock.offset().unsigned_abs() > 60_000_000 {
        count(Event::WrongClock);
    }
    let (sender, due) = mpsc::channel();
    let armed = Arc::new(Armed::new(clock, sender)?);
    let releases = Arc::<Releases>::default();
    {
        let (database, keeper) = (database.clone(), keeper.clone());
        let (armed, releases) = (armed.clone(), releases.clone());
        let worker = settings.name.clone();
        let stops = settings.stop_before_write;
        let store = settings.store.map(|address| Writer { address, worker, stops });
        spawn(move || {
            let mut session = Session::new(&database);
            release::release_all(&mut session, &releases, &armed, &due, &keeper, store.as_ref())
        });
    }
    spawn(move || listen::listen(&database, &keeper));
    keep(settings, &mut session, &releases, &armed, &wakes)
}

/// Starts a thread whose failure ends the process. Nothing has to be cleaned up: other workers take the holds over.
fn spawn(run: impl FnOnce() -> Result<()> + Send + 'static) {
    thread::spawn(|| {
        if let Err(error) = run() {
            eprintln!("{error}");
            process::exit(1);
        }
    });
}

fn keep(
    settings: &Settings,
    session: &mut Session,
    releases: &Releases,
    armed: &Armed,
    wakes: &Receiver<Wake>,
) -> Result<()> {
    let duration = Duration::from_millis(settings.lease);
    let horizon = Duration::from_millis(settings.horizon);
    // A scan that is late by half a horizon misses no deadline. An expired lease is noticed by a scan.
    let scan_every = (horizon / 2).min(duration / 3);
    let mut lease = Lease::acquire(session, &settings.name, duration)?;
    let mut connections = session.connections();
    let mut renew_at = Instant::now() + duration / 3;
    loop {
        // Another worker should have the holds that this one cannot release.
        if releases.is_stuck(duration) {
            count(Event::NotRenewed);
            if should_stop(wakes, duration / 3) {
                return lease.give_back(session);
            }
            renew_at = Instant::now();
            continue;
        }
        if Instant::now() >= renew_at {
            renew_at = Instant::now() + duration / 3;
            if !lease.renew(session)? {
                lease = succeed(lease, session, &settings.name, armed)?;
            }
            if armed.measured(clock::measure(&armed.local_clock(), session)?) {
                count(Event::ClockSet);
            }
        }
        let claimed_at = Instant::now();
        claim_all(|| claim::unclaimed(session, &lease, horizon), &lease, armed)?;
        if claim::needs_later(session, &lease)? {
            lease = succeed(lease, session, &settings.name, armed)?;
        }
        claim_all(|| claim::expired(session, &lease), &lease, armed)?;
        if session.connections() != connections {
            // A claim may have committed without its answer, or may commit later. Neither hold has a timer.
            connections = session.connections();
            lease = succeed(lease, session, &settings.name, armed)?;
            // Claims what the last lease has left.
            continue;
        }
        let until = renew_at.min(claimed_at + scan_every);
        match wakes.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Wake::Stop) => return lease.give_back(session),
            Ok(Wake::Expired) => renew_at = Instant::now(),
            Ok(Wake::Nearer) => {
                thread::sleep((claimed_at + COALESCE).saturating_duration_since(Instant::now()));
                for wake in wakes.try_iter() {
                    match wake {
                        Wake::Stop => return lease.give_back(session),
                        Wake::Expired => renew_at = Instant::now(),
                        Wake::Nearer => {}
                    }
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err("the other threads have ended".into()),
        }
    }
}

/// Goes on under a new lease. Arms the holds that it has from the last one, and no others.
fn succeed(lease: Lease, session: &mut Session, worker: &str, armed: &Armed) -> Result<Lease> {
    let known = armed.ids();
    let (later, was_lost) = lease.succeed(session, worker)?;
    if was_lost {
        count(Event::LeaseLost);
    }
    armed.clear();
    let own = claim::own(session, &later)?;
    if own.iter().any(|hold| !known.contains(&hold.id)) {
        count(Event::Recovered);
    }
    armed.arm(later.epoch, &own)?;
    Ok(later)
}

/// Repeats a claim until it returns fewer holds than it may.
fn claim_all(mut claim: impl FnMut() -> Result<Vec<Claimed>>, lease: &Lease, armed: &Armed) -> Result<()> {
    loop {
        let holds = claim()?;
        armed.arm(lease.epoch, &holds)?;
        if holds.len() < BATCH as usize {
            return Ok(());
        }
    }
}

/// Waits for `pause`, whatever else there is to do. Returns whether the worker should end.
pub fn should_stop(wakes: &Receiver<Wake>, pause: Duration) -> bool {
    let until = Instant::now() + pause;
    loop {
        match wakes.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Wake::Nearer | Wake::Expired) => {}
            Ok(Wake::Stop) | Err(RecvTimeoutError::Disconnected) => return true,
            Err(RecvTimeoutError::Timeout) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_stop_ends_a_worker_that_waits() {
        let (keeper, wakes) = mpsc::channel();
        for (wake, stops) in [(Wake::Nearer, false), (Wake::Expired, false), (Wake::Stop, true)] {
            keeper.send(wake).unwrap();
            assert_eq!(should_stop(&wakes, Duration::from_millis(1)), stops);
        }
        drop(keeper);
        assert!(should_stop(&wakes, Duration::from_secs(3600)));
    }
}
