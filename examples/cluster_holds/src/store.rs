//! A store outside the database, and how a worker writes to it. The store knows no leases and no clock: it compares
//! the epoch of each write with the greatest one that it has seen for the same hold. That is the whole fence.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use nix::sys::signal::{Signal, raise};

use crate::Result;

const ACCEPTED: &str = "accepted";
const REFUSED: &str = "refused";

/// What the store has of one hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The greatest epoch that has written. It must stay as long as a worker of an earlier lease may come back.
    epoch: i64,
    /// The worker that releases the hold.
    pub worker: String,
}

/// All records, and the number of writes.
#[derive(Default)]
pub struct Records {
    pub holds: HashMap<i64, Record>,
    pub accepted: u64,
    pub refused: u64,
}

impl Records {
    /// Writes a record, unless a later lease has written one for the same hold. A worker may repeat a write.
    fn write(&mut self, hold: i64, record: Record) -> bool {
        if self.holds.get(&hold).is_some_and(|last| record.epoch < last.epoch) {
            self.refused += 1;
            return false;
        }
        self.holds.insert(hold, record);
        self.accepted += 1;
        true
    }
}

/// The store itself, which serves until the process ends.
pub struct Store {
    pub address: SocketAddr,
    records: Arc<Mutex<Records>>,
}

impl Store {
    pub fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let store = Self { address: listener.local_addr()?, records: Arc::default() };
        let records = store.records.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let records = records.clone();
                thread::spawn(move || serve(&stream, &records));
            }
        });
        Ok(store)
    }

    pub fn records(&self) -> MutexGuard<'_, Records> {
        lock(&self.records)
    }
}

/// Answers one write: a line with the hold, the epoch and the worker.
fn serve(mut stream: &TcpStream, records: &Mutex<Records>) -> Option<()> {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).ok()?;
    let mut words = line.trim_end().splitn(3, ' ');
    let (hold, epoch) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let record = Record { epoch, worker: words.next()?.to_owned() };
    // One lock for the comparison and the write: another write between them would make the fence useless.
    let accepted = lock(records).write(hold, record);
    writeln!(stream, "{}", if accepted { ACCEPTED } else { REFUSED }).ok()
}

fn lock(records: &Mutex<Records>) -> MutexGuard<'_, Records> {
    records.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How one worker writes to the store.
pub struct Writer {
    pub address: SocketAddr,
    pub worker: String,
    /// Whether the worker stops itself right before each write, until it gets SIGCONT.
    pub stops: bool,
}

impl Writer {
    /// Returns whether the store has accepted the write.
    pub fn write(&self, hold: i64, epoch: i64) -> Result<bool> {
        if self.stops {
            raise(Signal::SIGSTOP)?;
        }
        let mut stream = TcpStream::connect(self.address)?;
        writeln!(stream, "{hold} {epoch} {}", self.worker)?;
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer)?;
        match answer.trim_end() {
            ACCEPTED => Ok(true),
            REFUSED => Ok(false),
            other => Err(format!("the store outside the database answered {other:?}").into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_epoch_of_a_hold_never_decreases() {
        let store = Store::start().unwrap();
        let write = |worker: &str, hold, epoch| {
            Writer { address: store.address, worker: worker.to_owned(), stops: false }.write(hold, epoch).unwrap()
        };
        assert!(write("a", 7, 2));
        assert!(write("a", 7, 2));
        assert!(write("b", 7, 3));
        assert!(!write("a", 7, 2));
        assert!(write("a", 8, 2));
        let records = store.records();
        assert_eq!(records.holds[&7], Record { epoch: 3, worker: "b".to_owned() });
        assert_eq!((records.accepted, records.refused), (4, 1));
    }
}
