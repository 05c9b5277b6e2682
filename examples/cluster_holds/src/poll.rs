//! The same service without timers, for comparison: each worker asks for due holds at a fixed pause. It needs no lease:
//! the transaction that finds a hold also ends it.

use std::sync::mpsc::Receiver;
use std::time::Duration;

use crate::Result;
use crate::database::Session;
use crate::worker::{Wake, should_stop};

const BATCH: i64 = 1_000;
const RELEASE_DUE: &str = "
    WITH picked AS MATERIALIZED (
        SELECT id, item, quantity FROM holds
        WHERE ended IS NULL AND epoch IS NULL AND due <= clock_timestamp()
        ORDER BY due LIMIT $1 FOR UPDATE SKIP LOCKED),
    returned AS MATERIALIZED (SELECT item, sum(quantity) AS quantity FROM picked GROUP BY item),
    locked AS MATERIALIZED (
        SELECT item FROM stock WHERE item IN (SELECT item FROM returned) ORDER BY item FOR UPDATE),
    restocked AS (
        UPDATE stock SET free = free + returned.quantity FROM returned JOIN locked USING (item)
        WHERE stock.item = returned.item),
    ended AS (
        UPDATE holds SET ended = clock_timestamp() FROM picked WHERE holds.id = picked.id RETURNING holds.id)
    INSERT INTO ends (hold, outcome, at) SELECT id, 'released', clock_timestamp() FROM ended
    RETURNING hold";

/// Releases what is due, every `pause`, until the worker should end.
pub fn poll(session: &mut Session, pause: Duration, wakes: &Receiver<Wake>) -> Result<()> {
    loop {
        while session.query(RELEASE_DUE, &[&BATCH])?.len() == BATCH as usize {}
        if should_stop(wakes, pause) {
            return Ok(());
        }
    }
}
