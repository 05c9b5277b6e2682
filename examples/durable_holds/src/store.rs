//! The state that survives: the holds in the order of their deadlines, how they ended, and the stock.
//!
//! A hold is pending while it is in the table `DUE`. The transaction that removes it from there *claims* the hold. The
//! same transaction changes the stock and records how the hold ended, so after a crash either all of this has happened
//! or nothing. So a confirmation and a release cannot both succeed, nor can two releases, however often each was sent.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::SystemTime;

use redb::{Database, ReadableTable, ReadableTableMetadata, TableDefinition, WriteTransaction};

use crate::Result;

/// Stock of each item while nothing is held.
const STOCK: u32 = 1_000_000;
const ITEMS: u32 = 10;

/// Pending holds: milliseconds of the wall clock and the hold's number, so that a range of times is a range of keys.
const DUE: TableDefinition<(u64, u64), ()> = TableDefinition::new("due");
/// All holds by number: the deadline, the item, and the quantity.
const HOLDS: TableDefinition<u64, (u64, u32, u32)> = TableDefinition::new("holds");
/// Ended holds by number: whether it was sold, when it ended, and how often (1, unless the service has a bug).
const ENDS: TableDefinition<u64, (bool, u64, u32)> = TableDefinition::new("ends");
/// Pieces of each item that are neither held nor sold.
const FREE: TableDefinition<u32, u32> = TableDefinition::new("free");

/// Some pieces of an item, reserved for a customer until a deadline.
#[derive(Clone, Copy)]
pub struct Hold {
    pub id: u64,
    /// Deadline in milliseconds of the wall clock, because an `Instant` has no meaning in another process.
    pub due: u64,
    pub item: u32,
    pub quantity: u32,
}

impl Hold {
    /// Returns a hold of a random item and quantity.
    pub fn random(id: u64, due: u64) -> Self {
        Self { id, due, item: fastrand::u32(..ITEMS), quantity: fastrand::u32(1..=3) }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum End {
    Sold,
    Released,
}

/// Returns the present time in milliseconds of the wall clock.
pub fn wall_clock() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since.as_millis().try_into().unwrap_or(u64::MAX)
}

pub struct Store(Database);

impl Store {
    /// Opens the store in this file in the state of its last commit, or creates it.
    pub fn open(path: &Path) -> Result<Self> {
        let store = Self(Database::create(path)?);
        let change = store.begin()?;
        if change.0.open_table(FREE)?.is_empty()? {
            for item in 0..ITEMS {
                change.0.open_table(FREE)?.insert(item, STOCK)?;
            }
        }
        change.0.open_table(DUE)?;
        change.0.open_table(HOLDS)?;
        change.0.open_table(ENDS)?;
        change.commit()?;
        Ok(store)
    }

    pub fn begin(&self) -> Result<Change> {
        Ok(Change(self.0.begin_write()?))
    }

    /// Returns the number of holds ever placed.
    pub fn placed(&self) -> Result<u64> {
        Ok(self.0.begin_read()?.open_table(HOLDS)?.len()?)
    }

    /// Returns the number of pending holds.
    pub fn pending(&self) -> Result<u64> {
        Ok(self.0.begin_read()?.open_table(DUE)?.len()?)
    }

    /// Returns the pending holds whose deadline is in this range.
    pub fn due(&self, time: RangeInclusive<u64>) -> Result<Vec<Hold>> {
        let view = self.0.begin_read()?;
        let due = view.open_table(DUE)?;
        let holds = view.open_table(HOLDS)?;
        let range = due.range((*time.start(), 0)..=(*time.end(), u64::MAX))?;
        range
            .map(|key| -> Result<Hold> {
                let (due, id) = key?.0.value();
                let (_, item, quantity) = holds.get(id)?.expect("a pending hold was placed").value();
                Ok(Hold { id, due, item, quantity })
            })
            .collect()
    }

    /// Counts how the holds have ended.
    pub fn account(&self) -> Result<Account> {
        let view = self.0.begin_read()?;
        let due = view.open_table(DUE)?;
        let holds = view.open_table(HOLDS)?;
        let ends = view.open_table(ENDS)?;
        let mut account = Account::default();
        for hold in holds.iter()? {
            let (id, hold) = hold?;
            let (id, (time, _, quantity)) = (id.value(), hold.value());
            account.placed += 1;
            account.pending += u64::from(due.get((time, id))?.is_some());
            let Some(end) = ends.get(id)? else {
                account.held += quantity;
                continue;
            };
            let (sold, at, times) = end.value();
            account.twice += u64::from(times != 1);
            if sold {
                account.sold += 1;
                account.gone += quantity;
            } else {
                account.released += 1;
                account.early += u64::from(at < time);
                account.latest = account.latest.max(at.saturating_sub(time));
            }
        }
        for item in view.open_table(FREE)?.iter()? {
            account.free += item?.1.value();
        }
        Ok(account)
    }
}

/// An atomic transaction.
pub struct Change(WriteTransaction);

impl Change {
    pub fn place(&self, hold: Hold) -> Result<()> {
        let Hold { id, due, item, quantity } = hold;
        self.take(item, |free| free - quantity)?;
        self.0.open_table(HOLDS)?.insert(id, (due, item, quantity))?;
        self.0.open_table(DUE)?.insert((due, id), ())?;
        Ok(())
    }

    /// Ends a hold. Returns false if it had ended before.
    pub fn end(&self, hold: Hold, end: End, now: u64) -> Result<bool> {
        let claimed = self.0.open_table(DUE)?.remove((hold.due, hold.id))?.is_some();
        if claimed {
            if end == End::Released {
                self.take(hold.item, |free| free + hold.quantity)?;
            }
            let mut ends = self.0.open_table(ENDS)?;
            let times = ends.get(hold.id)?.map_or(0, |end| end.value().2);
            ends.insert(hold.id, (end == End::Sold, now, times + 1))?;
        }
        Ok(claimed)
    }

    fn take(&self, item: u32, change: impl FnOnce(u32) -> u32) -> Result<()> {
        let mut stock = self.0.open_table(FREE)?;
        let free = stock.get(item)?.expect("`open` inserted every item").value();
        stock.insert(item, change(free))?;
        Ok(())
    }

    pub fn commit(self) -> Result<()> {
        Ok(self.0.commit()?)
    }
}

/// Counts of how the holds ended, and of the stock.
#[derive(Default)]
pub struct Account {
    placed: u64,
    pending: u64,
    sold: u64,
    released: u64,
    /// Holds that ended more than once.
    twice: u64,
    /// Holds that were released before their deadline.
    early: u64,
    /// Maximum lateness of a release, in milliseconds.
    latest: u64,
    /// Pieces that are free, held, and sold.
    free: u32,
    held: u32,
    gone: u32,
}

impl Account {
    pub fn ended(&self) -> u64 {
        self.sold + self.released
    }

    /// Fails unless the counts add up.
    pub fn check(&self) -> Result<()> {
        let holds = self.placed == self.pending + self.ended();
        let stock = self.free + self.held + self.gone == ITEMS * STOCK;
        let ok = holds && stock && self.twice == 0 && self.early == 0;
        ok.then_some(()).ok_or_else(|| "the account is wrong".into())
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { placed, pending, sold, released, twice, early, latest, free, held, gone } = self;
        writeln!(f, "{placed} holds placed: {sold} sold, {released} released, {pending} pending")?;
        writeln!(f, "    {twice} ended twice, {early} released early, the latest {latest} ms late")?;
        write!(f, "    {free} pieces free, {held} held, {gone} gone: {} in all", free + held + gone)
    }
}
