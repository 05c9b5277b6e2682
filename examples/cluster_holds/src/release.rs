//! Releases holds that are due. One statement, hence one transaction, compares the lease and the deadlines with the
//! database's clock, ends the holds, and returns their pieces to the stock.

use std::collections::HashMap;
use std::iter;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::Result;
use crate::armed::{Armed, Due};
use crate::claim::Claimed;
use crate::counts::{Event, count};
use crate::database::Session;
use crate::store::Writer;
use crate::worker::Wake;

/// Maximum number of holds that one transaction releases.
const BATCH: usize = 1_000;

/// Locks the lease before it reads the clock, as [`lease`](crate::lease) says why. Locks stock rows in order: two
/// transactions that lock them in different orders would wait for each other. `now` in `ended` is the moment that
/// decided; `at` is read after all locks were waited for, so the lateness includes them.
pub const RELEASE: &str = "
    WITH held AS MATERIALIZED (SELECT epoch, expires FROM leases WHERE epoch = $1 FOR SHARE),
    lease AS MATERIALIZED (SELECT epoch, expires, clock_timestamp() AS now FROM held),
    picked AS MATERIALIZED (
        SELECT id, item, quantity, now FROM holds JOIN lease USING (epoch)
        WHERE id = ANY ($2) AND ended IS NULL AND due <= now AND expires > now ORDER BY id FOR UPDATE OF holds),
    returned AS MATERIALIZED (SELECT item, sum(quantity) AS quantity FROM picked GROUP BY item),
    locked AS MATERIALIZED (
        SELECT item FROM stock WHERE item IN (SELECT item FROM returned) ORDER BY item FOR UPDATE),
    restocked AS (
        UPDATE stock SET free = free + returned.quantity FROM returned JOIN locked USING (item)
        WHERE stock.item = returned.item),
    ended AS (
        UPDATE holds SET ended = now FROM picked WHERE holds.id = picked.id RETURNING holds.id)
    INSERT INTO ends (hold, outcome, at, epoch) SELECT id, 'released', clock_timestamp(), $1 FROM ended
    RETURNING hold";
/// Those of the holds that may be released now. A store outside the database hears only of these.
const DECIDED: &str = "
    WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now)
    SELECT id FROM clock, holds JOIN leases USING (epoch)
    WHERE id = ANY ($2) AND epoch = $1 AND expires > now AND ended IS NULL AND due <= now";
/// Of the holds that were not released: those that the lease still has, and whether the lease has expired.
const LEFT: &str = "
    SELECT id, micros(due), NOT EXISTS (SELECT FROM leases WHERE epoch = $1 AND expires > clock_timestamp())
    FROM holds WHERE id = ANY ($2) AND epoch = $1 AND ended IS NULL";

/// Whether the releaser gets on.
#[derive(Default)]
pub struct Releases {
    /// Since when it has been waiting for the database.
    waiting_since: Mutex<Option<Instant>>,
}

impl Releases {
    /// Returns whether one transaction has taken longer than `limit`, or has found no connection for so long.
    pub fn is_stuck(&self, limit: Duration) -> bool {
        self.waiting_since().is_some_and(|since| since.elapsed() > limit)
    }

    fn waiting_since(&self) -> MutexGuard<'_, Option<Instant>> {
        self.waiting_since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Releases the holds that come out of the channel, until nothing can send to it.
pub fn release_all(
    session: &mut Session,
    releases: &Releases,
    armed: &Armed,
    due: &Receiver<Due>,
    keeper: &Sender<Wake>,
    store: Option<&Writer>,
) -> Result<()> {
    while let Ok(first) = due.recv() {
        // All holds that are due by now share one flush to the disk.
        let mut epochs = HashMap::<i64, Vec<i64>>::new();
        for Due { id, epoch } in iter::once(first).chain(due.try_iter().take(BATCH - 1)) {
            epochs.entry(epoch).or_default().push(id);
        }
        for (epoch, ids) in epochs {
            *releases.waiting_since() = Some(Instant::now());
            match store {
                None => release(session, armed, keeper, epoch, &ids, &ids)?,
                Some(store) => {
                    let written = write(session, store, epoch, &ids)?;
                    release(session, armed, keeper, epoch, &ids, &written)?;
                }
            }
            *releases.waiting_since() = None;
        }
    }
    Ok(())
}

/// Writes to the store outside the database. Returns the holds whose writes it has accepted. The lease may be lost
/// right after the decision: the database cannot keep a late write out of another store, but the epoch can.
fn write(session: &mut Session, store: &Writer, epoch: i64, ids: &[i64]) -> Result<Vec<i64>> {
    let mut written = Vec::new();
    for row in session.query(DECIDED, &[&epoch, &ids])? {
        let id = row.get(0);
        if store.write(id, epoch)? {
            written.push(id);
        }
    }
    Ok(written)
}

/// Releases those of the holds `ids` that are in `written`, and arms the others again unless they are lost.
fn release(
    session: &mut Session,
    armed: &Armed,
    keeper: &Sender<Wake>,
    epoch: i64,
    ids: &[i64],
    written: &[i64],
) -> Result<()> {
    let released = session.query(RELEASE, &[&epoch, &written])?.len();
    if released < ids.len() {
        // The others were paid or taken over, or they are not due by the database's clock, or the lease has expired.
        let left = session.query(LEFT, &[&epoch, &ids])?;
        let holds: Vec<_> = left.iter().map(|row| Claimed { id: row.get(0), due: row.get(1) }).collect();
        let lost: Vec<_> = ids.iter().copied().filter(|id| holds.iter().all(|hold| hold.id != *id)).collect();
        armed.remove(epoch, &lost);
        armed.arm_again(epoch, &holds)?;
        match left.first().map(|row| row.get(2)) {
            None => {}
            Some(false) => count(Event::Early),
            Some(true) => {
                count(Event::Refused);
                keeper.send(Wake::Expired).unwrap_or(());
            }
        }
    } else {
        armed.remove(epoch, ids);
    }
    Ok(())
}
