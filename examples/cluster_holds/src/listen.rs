//! Wakes the keeper for holds that are nearer than the horizon: a shop sends a notification with each. A notification
//! may be lost with its connection, so a new connection wakes the keeper, too.

use std::sync::mpsc::Sender;

use postgres::fallible_iterator::FallibleIterator;

use crate::Result;
use crate::counts::{Event, count};
use crate::database::{Database, Session};
use crate::worker::Wake;

/// Wakes the keeper for each notification, until there is no keeper.
pub fn listen(database: &Database, keeper: &Sender<Wake>) -> Result<()> {
    let mut session = Session::new(database);
    loop {
        if session.try_with(|client| client.batch_execute("LISTEN nearer"))?.is_none() {
            continue;
        }
        loop {
            if keeper.send(Wake::Nearer).is_err() {
                return Ok(());
            }
            // The end of the iterator is the end of the connection; the next statement then fails.
            let next = session.try_with(|client| client.notifications().blocking_iter().next())?;
            if next.flatten().is_none() {
                break;
            }
            count(Event::Notified);
        }
    }
}
