//! Ends holds that are due: one statement, hence one transaction, checks the lease and the deadline by the database's
//! clock, ends the holds, and gives their pieces back.

use std::collections::HashMap;
use std::iter;
use std::sync::mpsc::{Receiver, Sender};

use crate::Result;
use crate::armed::{Armed, Due};
use crate::children::{Line, tell};
use crate::claim::Claimed;
use crate::database::Session;
use crate::worker::Wake;

/// Maximum number of holds that one transaction releases.
const BATCH: usize = 1_000;

/// Stock rows are locked in order, as two transactions that lock them in different orders would wait for each other.
const RELEASE: &str = "
    WITH lease AS MATERIALIZED (SELECT epoch FROM leases WHERE epoch = $1 AND expires > clock_timestamp()),
    picked AS MATERIALIZED (
        SELECT id, item, quantity FROM holds
        WHERE id = ANY ($2) AND epoch = (SELECT epoch FROM lease) AND ended IS NULL AND due <= clock_timestamp()
        ORDER BY id FOR UPDATE),
    given AS MATERIALIZED (SELECT item, sum(quantity) AS quantity FROM picked GROUP BY item),
    locked AS MATERIALIZED (
        SELECT item FROM stock WHERE item IN (SELECT item FROM given) ORDER BY item FOR UPDATE),
    restocked AS (
        UPDATE stock SET free = free + given.quantity FROM given JOIN locked USING (item)
        WHERE stock.item = given.item),
    ended AS (
        UPDATE holds SET ended = clock_timestamp() FROM picked WHERE holds.id = picked.id RETURNING holds.id)
    INSERT INTO ends (hold, outcome, at, epoch) SELECT id, 'released', clock_timestamp(), $1 FROM ended
    RETURNING hold";
/// Of the holds that were not released: those that the lease still has.
const LEFT: &str = "
    SELECT id, micros(due), due <= clock_timestamp() FROM holds WHERE id = ANY ($2) AND epoch = $1 AND ended IS NULL";

/// Releases what comes out of the channel until nothing can send to it.
pub fn release_all(session: &mut Session, armed: &Armed, due: &Receiver<Due>, keeper: &Sender<Wake>) -> Result<()> {
    while let Ok(first) = due.recv() {
        // All that is due by now shares one flush to the disk.
        let mut epochs = HashMap::<i64, Vec<i64>>::new();
        for Due { id, epoch } in iter::once(first).chain(due.try_iter().take(BATCH - 1)) {
            epochs.entry(epoch).or_default().push(id);
        }
        for (epoch, ids) in epochs {
            release(session, armed, keeper, epoch, &ids)?;
        }
    }
    Ok(())
}

fn release(session: &mut Session, armed: &Armed, keeper: &Sender<Wake>, epoch: i64, ids: &[i64]) -> Result<()> {
    let released = session.query(RELEASE, &[&epoch, &ids])?.len();
    if released < ids.len() {
        // Paid, taken over, too early by the database's clock, or the lease has expired.
        let left = session.query(LEFT, &[&epoch, &ids])?;
        let holds: Vec<_> = left.iter().map(|row| Claimed { id: row.get(0), due: row.get(1) }).collect();
        let lost: Vec<_> = ids.iter().copied().filter(|id| holds.iter().all(|hold| hold.id != *id)).collect();
        armed.remove(epoch, &lost);
        armed.arm_again(epoch, &holds)?;
        if left.iter().any(|row| row.get(2)) {
            tell(Line::Refused);
            keeper.send(Wake::Doubt).unwrap_or(());
        }
    } else {
        armed.remove(epoch, ids);
    }
    Ok(())
}
