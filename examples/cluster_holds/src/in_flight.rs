//! Statements that take effect after their sender has gone on. A connection is cut while its claim waits to commit: the
//! claim commits nevertheless, and its worker must notice. A renewal waits until its lease has ended. A hold names a
//! lease that was removed.

use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{io, thread};

use crate::Result;
use crate::audit;
use crate::children::Process;
use crate::claim;
use crate::cluster::Cluster;
use crate::database::{Database, Session};
use crate::fence::wait;
use crate::lease::Lease;
use crate::phase::LEASE;
use crate::release::RELEASE;
use crate::revocation::{SHARE_LEASE, join, pid};
use crate::shop::PLACE;

/// The proxy's port, which is only a name: it listens on a socket in the directory of the cluster.
const PORT: u16 = 5433;
const WORKER: &str = "cut-off";
/// A lease that ends while its renewal waits.
const SHORT: Duration = Duration::from_secs(1);

/// Every claim waits for the lock of this row right before it commits.
const WAIT_BEFORE_COMMIT: &str = "
    CREATE FUNCTION wait_before_commit() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN PERFORM FROM schema_version FOR SHARE; RETURN NULL; END';
    CREATE CONSTRAINT TRIGGER wait_before_commit AFTER UPDATE ON holds DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW WHEN (NEW.claims > OLD.claims) EXECUTE FUNCTION wait_before_commit()";
const LOCK: &str = "SELECT FROM schema_version FOR UPDATE";
const BLOCKED: &str = "SELECT pid FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))";
const LEASES: &str = "SELECT epoch, micros(expires) FROM leases WHERE worker = $1 ORDER BY epoch DESC LIMIT 1";
const EXPIRES: &str = "SELECT micros(expires) FROM leases WHERE epoch = $1";
const LIVING: &str = "SELECT FROM leases WHERE epoch = $1 AND expires > clock_timestamp()";
const REMOVE: &str = "DELETE FROM leases WHERE epoch = $1";
const ENDED: &str = "SELECT FROM ends WHERE hold = $1";

/// Cuts off a worker in each of its claims. Fails unless it releases what it has claimed.
pub fn finds_claims_that_commit_late(url: &str, database: &Database, cluster: &Cluster) -> Result<()> {
    let mut session = Session::new(database);
    session.try_with(|client| client.batch_execute(WAIT_BEFORE_COMMIT))?.ok_or("the connection was lost")?;
    let proxy = Proxy::start(cluster)?;
    for (hold, taken_over) in [(1_i64, false), (2, true)] {
        session.query(PLACE, &[&hold, &1_i32, &1_i32, &0.0, &0.0])?;
        if taken_over {
            let lease = Lease::acquire(&mut session, "gone", LEASE * 100)?;
            claim::unclaimed(&mut session, &lease, LEASE)?;
            lease.give_back(&mut session)?;
        }
        let mut locker = Session::new(database);
        locker.query("BEGIN", &[])?;
        locker.query(LOCK, &[])?;
        let locked = pid(&mut locker)?;

        let arguments = [format!("--name={WORKER}"), format!("--lease={}", LEASE.as_millis())];
        let worker = Process::start(&format!("{url} port={PORT}"), "worker", &arguments, &Arc::default())?;
        let mut claim = None;
        wait("a claim", || {
            claim = session.query(BLOCKED, &[&locked])?.first().map(|row| row.get::<_, i32>(0));
            Ok(claim.is_some())
        })?;
        let lease = &session.query(LEASES, &[&WORKER])?[0];
        let (epoch, expires): (i64, i64) = (lease.get(0), lease.get(1));
        proxy.cut();
        wait("a statement that waits for the claim", || {
            // Its row changes if the lease is renewed or ended.
            if session.query(EXPIRES, &[&epoch])?[0].get::<_, i64>(0) != expires {
                return Err("in flight: a worker renewed or ended its lease though a claim was about to commit".into());
            }
            Ok(!session.query(BLOCKED, &[&claim])?.is_empty())
        })?;
        locker.query("ROLLBACK", &[])?;
        let what = if taken_over { "taken over" } else { "claimed" };
        wait(&format!("the release of a hold that was {what} by a claim that committed late"), || {
            Ok(!session.query(ENDED, &[&hold])?.is_empty())
        })?;
        if !worker.finish()?.success() {
            return Err("a worker failed".into());
        }
    }
    let wrong = audit::check(&mut session, 2)?;
    if !wrong.is_empty() {
        return Err(format!("in flight: {}", wrong.join("; ")).into());
    }
    println!("in flight: 2 claims committed after their connection was cut, and their worker released the holds");
    Ok(())
}

/// Lets a renewal wait until its lease has ended. Fails unless it is refused.
pub fn refuses_a_renewal_that_waits_too_long(database: &Database) -> Result<()> {
    let mut session = Session::new(database);
    let lease = Lease::acquire(&mut session, "late", SHORT)?;
    let mut locker = Session::new(database);
    locker.query("BEGIN", &[])?;
    locker.query(SHARE_LEASE, &[&lease.epoch])?;
    let locked = pid(&mut locker)?;
    let mut renewing = Session::new(database);
    let renewal = thread::spawn(move || lease.renew(&mut renewing));
    wait("a renewal", || Ok(renewal.is_finished() || !session.query(BLOCKED, &[&locked])?.is_empty()))?;
    wait("the end of a lease", || Ok(session.query(LIVING, &[&lease.epoch])?.is_empty()))?;
    locker.query("ROLLBACK", &[])?;
    if join(renewal)? {
        return Err("in flight: a lease was renewed that had ended".into());
    }
    println!("in flight: a renewal waited until its lease had ended, and was refused");
    Ok(())
}

/// Removes a lease that has claimed a hold. Fails unless the hold is taken over.
pub fn takes_over_from_removed_leases(database: &Database) -> Result<()> {
    let mut session = Session::new(database);
    let earlier = Lease::acquire(&mut session, "earlier", LEASE * 100)?;
    let removed = Lease::acquire(&mut session, "removed", LEASE * 100)?;
    let hold = 1_i64;
    session.query(PLACE, &[&hold, &1_i32, &1_i32, &0.0, &0.0])?;
    claim::unclaimed(&mut session, &removed, LEASE)?;
    session.query(REMOVE, &[&removed.epoch])?;
    if !claim::needs_later(&mut session, &earlier)? {
        return Err("in flight: an earlier lease does not see the hold of a lease that was removed".into());
    }
    let later = Lease::acquire(&mut session, "later", LEASE * 100)?;
    let taken: Vec<_> = claim::expired(&mut session, &later)?.iter().map(|claimed| claimed.id).collect();
    session.query(RELEASE, &[&later.epoch, &taken])?;
    let wrong = audit::check(&mut session, 1)?;
    if !wrong.is_empty() {
        return Err(format!("in flight: a lease was removed; {}", wrong.join("; ")).into());
    }
    println!("in flight: the hold of a lease that was removed was taken over");
    Ok(())
}

/// Passes connections on to the server, until it cuts them on the side of the clients. The server does not notice.
struct Proxy {
    /// Each client, and its connection to the server.
    connections: Arc<Mutex<Vec<(UnixStream, UnixStream)>>>,
}

impl Proxy {
    fn start(cluster: &Cluster) -> Result<Self> {
        let listener = UnixListener::bind(cluster.socket(PORT))?;
        let server = cluster.socket(Cluster::PORT);
        let proxy = Self { connections: Arc::default() };
        let connections = proxy.connections.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = UnixStream::connect(&server) else { continue };
                if pass(&client, &server).and(pass(&server, &client)).is_ok() {
                    lock(&connections).push((client, server));
                }
            }
        });
        Ok(proxy)
    }

    fn cut(&self) {
        for (client, _) in &*lock(&self.connections) {
            // An error means that the client has closed the connection.
            let _ = client.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        for (_, server) in lock(&self.connections).drain(..) {
            let _ = server.shutdown(Shutdown::Both);
        }
    }
}

/// Copies all that comes from one side to the other.
fn pass(from: &UnixStream, to: &UnixStream) -> io::Result<()> {
    let (mut from, mut to) = (from.try_clone()?, to.try_clone()?);
    thread::spawn(move || io::copy(&mut from, &mut to));
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
