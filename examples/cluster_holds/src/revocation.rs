//! Releases beside statements that end their lease. Locks force three interleavings: a release begins after the lease
//! was ended, and before the commit; it begins before that end, and waits for it; or it overtakes a statement that waits
//! to end the lease.

use std::thread::{self, JoinHandle};

use crate::Result;
use crate::audit;
use crate::claim;
use crate::database::{Database, Session};
use crate::fence::wait;
use crate::lease::{self, Lease};
use crate::phase::LEASE;
use crate::release::RELEASE;
use crate::shop::PLACE;

const WORKER: &str = "revoked";

type Ending = fn(Lease, &mut Session) -> Result<()>;
const ENDINGS: [(&str, Ending); 3] = [
    ("a revocation", |_, session| lease::revoke(session, WORKER).map(drop)),
    ("a lease that is given back", |lease, session| lease.give_back(session)),
    ("a lease that is succeeded", |lease, session| lease.succeed(session, WORKER).map(drop)),
];

const PID: &str = "SELECT pg_backend_pid()";
const BLOCKED: &str = "SELECT FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))";
/// A successor waits for this lock, after it has ended the lease.
const LOCK_HOLD: &str = "SELECT FROM holds WHERE epoch = $1 ORDER BY id LIMIT 1 FOR UPDATE";
/// Every statement that ends the lease waits for this lock. A release does not.
pub const SHARE_LEASE: &str = "SELECT FROM leases WHERE epoch = $1 FOR SHARE";
const LOCK_LEASE: &str = "SELECT FROM leases WHERE epoch = $1 FOR UPDATE";

/// What the run locks meanwhile, what the transaction locks before it ends the lease, and how many holds are released.
const CASES: [(&str, &[&str], usize); 3] =
    [(LOCK_HOLD, &[], 0), (LOCK_HOLD, &[LOCK_LEASE, LOCK_HOLD], 0), (SHARE_LEASE, &[], 1)];

/// Forces all cases. Fails unless each release ended as many holds as it may, and none after its lease.
pub fn waits_for_releases(database: &Database) -> Result<()> {
    let mut session = Session::new(database);
    let mut wrong = Vec::new();
    let mut holds = 0;
    for (what, ending) in ENDINGS {
        for (lock, first, expected) in CASES {
            let lease = Lease::acquire(&mut session, WORKER, LEASE * 100)?;
            let ids = [holds + 1, holds + 2];
            holds += 2;
            for id in ids {
                session.query(PLACE, &[&id, &1_i32, &1_i32, &0.0, &0.0])?;
            }
            claim::unclaimed(&mut session, &lease, LEASE)?;
            let released = beside(database, lease, ids[1], lock, move |session| {
                for sql in first {
                    session.query(sql, &[&lease.epoch])?;
                }
                ending(lease, session)
            })?;
            if released != expected {
                wrong.push(format!("beside {what}, {released} holds were released instead of {expected}"));
            }
        }
    }
    lease::revoke(&mut session, WORKER)?;
    let lease = Lease::acquire(&mut session, WORKER, LEASE * 100)?;
    let left: Vec<_> = claim::expired(&mut session, &lease)?.iter().map(|hold| hold.id).collect();
    session.query(RELEASE, &[&lease.epoch, &left])?;
    wrong.extend(audit::check(&mut session, holds as u64)?);
    if !wrong.is_empty() {
        return Err(format!("revocation: {}", wrong.join("; ")).into());
    }
    println!("revocation: {} interleavings, no hold released after its lease", ENDINGS.len() * CASES.len());
    Ok(())
}

/// Ends the lease by `end` while a release of the hold `id` runs. Returns the number of holds that were released.
fn beside(
    database: &Database,
    lease: Lease,
    id: i64,
    lock: &'static str,
    end: impl FnOnce(&mut Session) -> Result<()> + Send + 'static,
) -> Result<usize> {
    let mut locker = Session::new(database);
    locker.query("BEGIN", &[])?;
    locker.query(lock, &[&lease.epoch])?;
    let locked = pid(&mut locker)?;

    let mut session = Session::new(database);
    let ends = pid(&mut session)?;
    let ender = thread::spawn(move || {
        session.query("BEGIN", &[])?;
        end(&mut session)?;
        // With `LOCK_HOLD`, the transaction waits here at the latest.
        session.query(LOCK_HOLD, &[&lease.epoch])?;
        session.query("COMMIT", &[])
    });
    let mut watcher = Session::new(database);
    let mut blocks = |pid: i32| Ok(!watcher.query(BLOCKED, &[&pid])?.is_empty());
    wait("the end of a lease", || blocks(locked))?;

    let mut session = Session::new(database);
    let releaser = thread::spawn(move || session.query(RELEASE, &[&lease.epoch, &vec![id]]));
    wait("a release", || Ok(releaser.is_finished() || blocks(ends)?))?;
    locker.query("ROLLBACK", &[])?;
    join(ender)?;
    Ok(join(releaser)?.len())
}

pub fn pid(session: &mut Session) -> Result<i32> {
    Ok(session.query(PID, &[])?[0].get(0))
}

pub fn join<T>(thread: JoinHandle<Result<T>>) -> Result<T> {
    thread.join().map_err(|_| "a thread has panicked")?
}
