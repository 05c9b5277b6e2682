//! One run of the service.
//!
//! One loop receives every event: requests of customers, holds whose timer has fired, and the periodic look ahead. The
//! loop takes all waiting events, commits them in one transaction, and only then acts on them. Only the holds of the
//! next [`HORIZON`] have a timer, however many the store has. Many holds are confirmed before they come into the
//! horizon.

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

/// Holds that expire within this time have a timer. A minute suits holds of half an hour; the holds here last seconds.
const HORIZON: Duration = Duration::from_secs(1);
/// Pause between two looks ahead; shorter than [`HORIZON`], so that each comes before the last horizon has passed.
const LOOK_AHEAD_EVERY: Duration = Duration::from_millis(500);
/// How long a hold lasts, in milliseconds.
const HOLD: Range<u64> = 500..3_000;
/// Number of customers that arrive at a time, and the pause between two arrivals.
const ARRIVALS: (u64, Duration) = (20, Duration::from_millis(5));

#[derive(Clone, Copy)]
enum Event {
    Place(Hold),
    /// The customer has paid.
    Confirm(Hold),
    /// The timer has fired for this hold.
    Due(u64),
    LookAhead,
}

/// A point of the first transaction that releases a hold. The service stops there and waits to be killed.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Halt {
    BeforeCommit,
    AfterCommit,
}

impl Halt {
    /// The line that the service prints when it has stopped.
    pub const LINE: &str = "stopped";

    fn wait_for_kill() -> ! {
        println!("{}", Self::LINE);
        loop {
            thread::park();
        }
    }
}

/// What one run of the service has done so far.
#[derive(Clone, Copy, Default)]
pub struct Progress {
    pub placed: u64,
    pub sold: u64,
    pub released: u64,
    /// Confirmations that came after the hold had been released.
    late: u64,
    /// Maximum number of holds that were in memory.
    in_memory: usize,
}

/// Serves customers until `holds` holds have been placed and all of them have ended, or until the point `halt`.
pub fn serve(store: &Store, holds: u64, halt: Option<Halt>) -> Result<()> {
    // The callbacks only send events, which does not block.
    let timer = Timer::builder().shards(1).executor(Executor::Inline).build()?;
    let (sender, events) = mpsc::channel();
    let look = sender.clone();
    timer.schedule_with_fixed_delay(Duration::ZERO, LOOK_AHEAD_EVERY, move || {
        look.send(Event::LookAhead).unwrap_or(())
    })?;
    customers(&timer, sender.clone(), store.placed()?..holds)?;
    let mut upcoming = Upcoming { timer, sender, holds: HashMap::new(), horizon: 0, halt };
    let mut progress = Progress::default();
    while store.placed()? < holds || store.pending()? > 0 {
        let first = events.recv()?;
        upcoming.handle(store, iter::once(first).chain(events.try_iter()).collect(), &mut progress)?;
        println!("{progress}");
    }
    Ok(())
}

/// Schedules the arrival of customers. Each customer places a hold; nine of ten confirm it, some of them too late. A
/// hold of an earlier run is never confirmed.
fn customers(timer: &Timer, sender: Sender<Event>, mut ids: Range<u64>) -> Result<()> {
    let weak = timer.downgrade();
    let (count, pause) = ARRIVALS;
    let arrive = move |now: Instant| {
        let timer = weak.upgrade()?;
        for id in ids.by_ref().take(count as usize) {
            let lasts = fastrand::u64(HOLD);
            let hold = Hold::random(id, wall_clock() + lasts);
            sender.send(Event::Place(hold)).ok()?;
            if fastrand::u8(..10) > 0 {
                let pays = Duration::from_millis(fastrand::u64(..lasts * 21 / 20));
                let sender = sender.clone();
                timer.schedule(pays, move || sender.send(Event::Confirm(hold)).unwrap_or(())).ok()?;
            }
        }
        (!ids.is_empty()).then(|| now + pause)
    };
    timer.schedule_recurring(timer.now(), arrive)?;
    Ok(())
}

/// The holds that expire within the horizon, each with its timer.
struct Upcoming {
    timer: Timer,
    sender: Sender<Event>,
    holds: HashMap<u64, (Hold, TimerHandle)>,
    /// All pending holds that expire until this time are in `holds`.
    horizon: u64,
    halt: Option<Halt>,
}

impl Upcoming {
    /// Applies all events in one transaction, and updates the timers after its commit.
    fn handle(&mut self, store: &Store, events: Vec<Event>, progress: &mut Progress) -> Result<()> {
        let now = wall_clock();
        let change = store.begin()?;
        let mut look_ahead = false;
        let before = progress.released;
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
                        // The wall clock was set back while the timer was pending.
                        placed.push(hold);
                    }
                }
                Event::LookAhead => look_ahead = true,
            }
        }
        let halt = self.halt.filter(|_| progress.released > before);
        if halt == Some(Halt::BeforeCommit) {
            Halt::wait_for_kill();
        }
        change.commit()?;
        if halt == Some(Halt::AfterCommit) {
            Halt::wait_for_kill();
        }
        for id in over {
            if let Some((_, handle)) = self.holds.remove(&id) {
                handle.cancel();
            }
        }
        if look_ahead {
            // From the last horizon on. The first look starts at 0, and finds what expired while the service was down.
            let until = now + HORIZON.as_millis() as u64;
            placed.extend(store.due(self.horizon..=until)?);
            self.horizon = until;
        }
        let horizon = self.horizon;
        for hold in placed.into_iter().filter(|hold| hold.due <= horizon) {
            self.arm(hold)?;
        }
        progress.in_memory = progress.in_memory.max(self.holds.len());
        Ok(())
    }

    fn arm(&mut self, hold: Hold) -> Result<()> {
        let id = hold.id;
        let sender = self.sender.clone();
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
        let Self { placed, sold, released, late, in_memory } = self;
        write!(
            f,
            "{placed} placed, {sold} sold, {released} released, {late} confirmed late, {in_memory} in memory at most"
        )
    }
}

impl FromStr for Progress {
    type Err = Box<dyn Error>;

    fn from_str(line: &str) -> Result<Self, Self::Err> {
        let mut numbers = line.split(", ").map(|part| part.split(' ').next().unwrap_or_default());
        let mut next = || numbers.next().ok_or("not a line of progress");
        let (placed, sold, released) = (next()?.parse()?, next()?.parse()?, next()?.parse()?);
        Ok(Self { placed, sold, released, late: next()?.parse()?, in_memory: next()?.parse()? })
    }
}
