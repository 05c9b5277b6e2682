//! What the shops were told, compared with the database at the end: a payment that was acknowledged is not undone, and a
//! deadline stays as it was given.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use postgres::Row;

use crate::Result;
use crate::database::Session;

/// How a line of the ledger begins.
const MARK: &str = "told";
const HOLDS: &str = "SELECT id, micros(due), outcome = 'paid' FROM holds LEFT JOIN ends ON hold = id";

/// What the database has told a shop.
#[derive(Clone, Copy)]
pub enum Told {
    /// The hold is placed, with this deadline in microseconds of the database's clock.
    Placed {
        id: i64,
        due: i64,
    },
    Paid {
        id: i64,
    },
}

/// Prints what a shop was told, for the run to keep. If the run has ended, nothing reads it.
pub fn tell(told: Told) {
    let _ = match told {
        Told::Placed { id, due } => writeln!(io::stdout(), "{MARK} {id} {due}"),
        Told::Paid { id } => writeln!(io::stdout(), "{MARK} {id}"),
    };
}

/// All that the shops were told.
#[derive(Default)]
pub struct Ledger(Mutex<Vec<Told>>);

impl Ledger {
    /// Adds what a shop has printed. Returns whether the line is one of the ledger.
    pub fn add(&self, line: &str) -> bool {
        let Some(numbers) = line.strip_prefix(MARK) else { return false };
        let told = match *numbers.split_whitespace().flat_map(str::parse).collect::<Vec<i64>>() {
            [id, due] => Told::Placed { id, due },
            [id] => Told::Paid { id },
            _ => return false,
        };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(told);
        true
    }

    /// Returns how the database differs, a line each. All `holds` must have been placed.
    pub fn check(&self, session: &mut Session, holds: u64) -> Result<Vec<String>> {
        let hold = |row: &Row| (row.get(0), (row.get(1), row.get::<_, Option<bool>>(2) == Some(true)));
        let now: HashMap<i64, (i64, bool)> = session.query(HOLDS, &[])?.iter().map(hold).collect();
        let (mut placed, mut moved, mut undone) = (0, 0, 0);
        for told in &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            match *told {
                Told::Placed { id, due } => {
                    placed += 1;
                    moved += u64::from(now.get(&id).is_none_or(|now| now.0 != due));
                }
                Told::Paid { id } => undone += u64::from(now.get(&id).is_none_or(|now| !now.1)),
            }
        }
        let wrong = [
            (holds.abs_diff(placed), "holds of which the shops were not told"),
            (moved, "holds whose deadline is not the one that the shop was told"),
            (undone, "payments that were acknowledged, and are undone"),
        ];
        Ok(wrong.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{what}: {count}")).collect())
    }
}
