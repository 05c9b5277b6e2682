//! One life of the service.
//!
//! Everything that happens is an event, and comes to one loop: what customers want, what the timer has found to be due,
//! and that it is time to look ahead. The loop takes all that has come, makes one transaction of it, and only then acts on
//! it. The timer knows the holds of the next [`HORIZON`] alone, however many there are in the store; most are confirmed
//! before they come into it.

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::iter;
use std::ops::Range;
use std::str::FromStr;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use corewheel::{Executor, Timer, TimerHandle};

use crate::Result;
use crate::store::{End, Hold, Store, wall_clock};

/// How far ahead holds are in memory. A minute, where holds are of half an hour; here they are of some seconds.
const HORIZON: Duration = Duration::from_secs(1);
/// How often it looks ahead: before what it has seen is over.
const LOOK: Duration = Duration::from_millis(500);
/// How long a hold lasts, in milliseconds.
const HOLD: Range<u64> = 500..3_000;
/// Customers come so many at a time, so often.
const CROWD: (u64, Duration) = (20, Duration::from_millis(5));

#[derive(Clone, Copy)]
enum Event {
    Place(Hold),
    /// The customer has paid.
    Confirm(Hold),
    /// The timer has fired for this hold.
    Due(u64),
    LookAhead,
}

/// A moment of the first transaction that releases something, at which a life stands still to be ended there.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Halt {
    BeforeCommit,
    AfterCommit,
}

impl Halt {
    /// What is printed then.
    pub const LINE: &str = "stands still";

    fn here() -> ! {
        println!("{}", Self::LINE);
        loop {
            thread::park();
        }
    }
}

/// What one life has done so far.
#[derive(Clone, Copy, Default)]
pub struct Progress {
    pub placed: u64,
    pub sold: u64,
    pub released: u64,
    /// Confirmations that came when the hold had been released.
    late: u64,
    /// The most holds that were in memory.
    near: usize,
}

/// Serves customers until `holds` have been placed in all, and all of them have ended; or until the moment of `halt`.
pub fn serve(store: &Store, holds: u64, halt: Option<Halt>) -> Result<()> {
    // The callbacks only send.
    let timer = Timer::builder().shards(1).executor(Executor::Inline).build()?;
    let (sender, events) = mpsc::channel();
    let look = sender.clone();
    timer.schedule_with_fixed_delay(Duration::ZERO, LOOK, move || look.send(Event::LookAhead).unwrap_or(()))?;
    customers(&timer, sender.clone(), store.placed()?..holds)?;
    let mut near = Near { timer, sender, holds: HashMap::new(), seen: 0, halt };
    let mut progress = Progress::default();
    while store.placed()? < holds || store.waiting()? > 0 {
        let first = events.recv()?;
        near.handle(store, iter::once(first).chain(events.try_iter()).collect(), &mut progress)?;
        println!("{progress}");
    }
    Ok(())
}

/// Customers come, place holds, and nine of ten confirm; some of these too late. Those whose holds were placed in an
/// earlier life have given up.
fn customers(timer: &Timer, sender: Sender<Event>, mut ids: Range<u64>) -> Result<()> {
    let weak = timer.downgrade();
    let (crowd, pause) = CROWD;
    let come = move |now: Instant| {
        let timer = weak.upgrade()?;
        for id in ids.by_ref().take(crowd as usize) {
            let lasts = fastrand::u64(HOLD);
            let hold = Hold::any(id, wall_clock() + lasts);
            sender.send(Event::Place(hold)).ok()?;
            if fastrand::u8(..10) > 0 {
                let pays = Duration::from_millis(fastrand::u64(..lasts * 21 / 20));
                let sender = sender.clone();
                timer.schedule(pays, move || sender.send(Event::Confirm(hold)).unwrap_or(())).ok()?;
            }
        }
        (!ids.is_empty()).then(|| now + pause)
    };
    timer.schedule_recurring(timer.now(), come).map_err(|refused| refused.without_closure())?;
    Ok(())
}

/// The holds that are due soon.
struct Near {
    timer: Timer,
    sender: Sender<Event>,
    holds: HashMap<u64, (Hold, TimerHandle)>,
    /// All that are due until then are here.
    seen: u64,
    halt: Option<Halt>,
}

impl Near {
    /// Makes one transaction of all events, and acts on it when it is committed.
    fn handle(&mut self, store: &Store, events: Vec<Event>, progress: &mut Progress) -> Result<()> {
        let now = wall_clock();
        let change = store.begin()?;
        let (mut look_ahead, before) = (false, progress.released);
        let (mut placed, mut over) = (Vec::new(), Vec::new());
        for event in events {
            match event {
                Event::Place(hold) => {
                    change.place(hold)?;
                    progress.placed += 1;
                    placed.push(hold);
                }
                Event::Confirm(hold) => {
                    let sold = change.end(hold, End::Sold, now)?;
                    progress.sold += u64::from(sold);
                    progress.late += u64::from(!sold);
                    over.push(hold.id);
                }
                Event::Due(id) => {
                    let Some((hold, _)) = self.holds.remove(&id) else { continue };
                    if hold.due <= now {
                        progress.released += u64::from(change.end(hold, End::Released, now)?);
                    } else {
                        // The wall clock was set back, after the timer was.
                        placed.push(hold);
                    }
                }
                Event::LookAhead => look_ahead = true,
            }
        }
        let halt = self.halt.filter(|_| progress.released > before);
        if halt == Some(Halt::BeforeCommit) {
            Halt::here();
        }
        change.commit()?;
        if halt == Some(Halt::AfterCommit) {
            Halt::here();
        }
        for id in over {
            if let Some((_, handle)) = self.holds.remove(&id) {
                handle.cancel();
            }
        }
        if look_ahead {
            // From where it had seen; at first from the beginning, for all that fell due while nobody was there.
            let until = now + HORIZON.as_millis() as u64;
            placed.extend(store.due(self.seen..=until)?);
            self.seen = until;
        }
        let seen = self.seen;
        for hold in placed.into_iter().filter(|hold| hold.due <= seen) {
            self.arm(hold)?;
        }
        progress.near = progress.near.max(self.holds.len());
        Ok(())
    }

    fn arm(&mut self, hold: Hold) -> Result<()> {
        let (id, sender) = (hold.id, self.sender.clone());
        let left = Duration::from_millis(hold.due.saturating_sub(wall_clock()));
        let handle = self.timer.schedule(left, move || sender.send(Event::Due(id)).unwrap_or(()))?;
        if let Some((_, before)) = self.holds.insert(id, (hold, handle)) {
            before.cancel();
        }
        Ok(())
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { placed, sold, released, late, near } = self;
        write!(
            f,
            "{placed} placed, {sold} sold, {released} released, {late} confirmed too late, {near} in memory at most"
        )
    }
}

impl FromStr for Progress {
    type Err = Box<dyn Error>;

    fn from_str(line: &str) -> Result<Self, Self::Err> {
        let mut numbers = line.split(", ").map(|part| part.split(' ').next().unwrap_or_default());
        let mut next = || numbers.next().ok_or("a line of another form");
        let (placed, sold, released) = (next()?.parse()?, next()?.parse()?, next()?.parse()?);
        Ok(Self { placed, sold, released, late: next()?.parse()?, near: next()?.parse()? })
    }
}
