//! The buffs of a game server, in a wheel that the game loop owns and advances.
//!
//! ```text
//! cargo run --release --example game_buffs
//! ```
//!
//! Some game servers keep buffs and cooldowns in wheels shaped like a clock: 60 seconds, 60 minutes, 12 hours. The
//! first part prints such a clock as it advances: a timer cascades from the hour hand down to the hand of 100 ms. The
//! second part is a game loop. Its players have buffs that act every 3 s, stack, expire and get dispelled. Each buff is
//! one entry of the wheel, however often it acts. The same game also runs with the loop that the wheel replaces, which
//! scans every buff of every player in each tick. Both games must end in the same state.

mod options;
#[macro_use]
mod output;

use std::time::{Duration, Instant};

use corewheel::{BuildError, Key, Wheel};
use fastrand::Rng;
use hdrhistogram::Histogram;
use output::count;

/// Length of a tick of the game and of the wheel.
const TICK: Duration = Duration::from_millis(100);
const SECOND: u64 = 10;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const NEVER: u64 = u64::MAX;

/// Number of slots at each hand of the clock.
const CLOCK: [usize; 4] = [10, 60, 60, 12];
const HANDS: [&str; 4] = ["100 ms", "second", "minute", "hour"];

const PLAYERS: usize = 100_000;
/// Number of players that fight: the first ones.
const FIGHTING: usize = 10_000;
const TICKS: u64 = MINUTE;
/// Spells cast, and buffs dispelled, in each tick.
const SPELLS: usize = 500;
const DISPELS: usize = 50;

fn main() -> Result<(), BuildError> {
    options::none("Plays a game twice: its buffs are found by a scan of all, and by a wheel.");
    assert_eq!(show_cascade(2 * MINUTE + 4 * SECOND + 3)?, [(2, 2), (1, 4), (0, 3)]);
    assert_eq!(show_cascade(9 * HOUR + 30 * MINUTE + 5 * SECOND + 7)?, [(3, 9), (2, 30), (1, 5), (0, 7)]);

    let scan = Game::new(Scan).play();
    let clock = Wheel::with_levels(0, &CLOCK)?;
    let wheel = Game::new(ByWheel { clock, keys: vec![[None; KINDS.len()]; PLAYERS], due: Vec::new() }).play();

    let buffs = wheel.players.iter().flat_map(|player| &player.buffs).filter(|buff| buff.stacks > 0).count();
    assert!(scan.players == wheel.players && scan.tally == wheel.tally, "the two games differ");
    assert_eq!(wheel.finder.clock.len(), buffs, "an entry for each buff");
    report(&scan, &wheel, buffs);
    Ok(())
}

/// Prints how a timer cascades through the clock until it fires. Returns the hands and slots at which it waited.
fn show_cascade(deadline: u64) -> Result<Vec<(usize, u64)>, BuildError> {
    let mut clock = Wheel::with_levels(0, &CLOCK)?;
    let key = clock.insert(deadline, ());
    let mut hops = Vec::new();
    println!("a timer at {}", time(deadline));
    while let Some((level, first, last)) = clock.position(key) {
        let slot = first / (last - first + 1) % CLOCK[level] as u64;
        let dial: String = (0..CLOCK[level] as u64).map(|index| if index == slot { 'O' } else { '.' }).collect();
        let [now, from, to] = [clock.now(), first, last].map(time);
        println!("  {now}  {:<6}  {dial:<60}  slot {slot:<2} {from} ..{to}", HANDS[level]);
        hops.push((level, slot));
        clock.advance(first, |due, ()| assert_eq!(due, deadline));
    }
    assert_eq!(clock.now(), deadline);
    println!("  {}  fired\n", time(deadline));
    Ok(hops)
}

/// Formats a tick as hours, minutes, and seconds with tenths.
fn time(tick: u64) -> String {
    let hours = tick / HOUR;
    let minutes = tick / MINUTE % 60;
    format!("{hours:2}:{minutes:02}:{:02}.{}", tick / SECOND % 60, tick % SECOND)
}

struct Kind {
    /// Ticks from one action to the next.
    every: Option<u64>,
    lasts: u64,
    /// Change of the player's health by one action of one stack.
    power: i64,
    stacks: u32,
    /// Percentage of players that have this buff from the start.
    share: u8,
}

/// The kinds of buffs: first those that are cast in a fight, then long-lasting ones.
const KINDS: [Kind; 6] = [
    Kind { every: Some(3 * SECOND), lasts: 12 * SECOND, power: -9, stacks: 5, share: 0 },
    Kind { every: Some(3 * SECOND), lasts: 15 * SECOND, power: 7, stacks: 3, share: 0 },
    Kind { every: Some(3 * SECOND), lasts: 12 * HOUR, power: 1, stacks: 1, share: 10 },
    Kind { every: None, lasts: 20 * MINUTE, power: 0, stacks: 1, share: 80 },
    Kind { every: None, lasts: 30 * MINUTE, power: 0, stacks: 1, share: 80 },
    Kind { every: None, lasts: HOUR, power: 0, stacks: 1, share: 80 },
];
const POISON: usize = 0;
const CAST: usize = 2;

#[derive(Clone, Copy, PartialEq)]
struct Buff {
    /// 0 if the player has no such buff.
    stacks: u32,
    acts: u64,
    ends: u64,
}

impl Buff {
    const NONE: Self = Self { stacks: 0, acts: NEVER, ends: NEVER };

    fn due(&self) -> u64 {
        self.acts.min(self.ends)
    }
}

#[derive(Clone, PartialEq)]
struct Player {
    health: i64,
    buffs: [Buff; KINDS.len()],
}

#[derive(Default, PartialEq)]
struct Tally {
    actions: u64,
    stacked: u64,
    dispelled: u64,
    expired: u64,
}

impl Player {
    /// Adds a stack, and restarts the duration of the buff.
    fn buff(&mut self, kind: usize, now: u64, lasts: u64, tally: &mut Tally) {
        let Kind { every, stacks, .. } = &KINDS[kind];
        let buff = &mut self.buffs[kind];
        if buff.stacks == 0 {
            buff.acts = every.map_or(NEVER, |every| now + every);
        } else {
            tally.stacked += 1;
        }
        buff.stacks = (buff.stacks + 1).min(*stacks);
        buff.ends = now + lasts;
    }

    fn dispel(&mut self, kind: usize, tally: &mut Tally) {
        tally.dispelled += u64::from(self.buffs[kind].stacks > 0);
        self.buffs[kind] = Buff::NONE;
    }

    /// Applies the action and the end of a buff, whichever are due.
    fn run(&mut self, kind: usize, now: u64, tally: &mut Tally) {
        let buff = &mut self.buffs[kind];
        if buff.acts <= now {
            self.health += KINDS[kind].power * i64::from(buff.stacks);
            buff.acts += KINDS[kind].every.expect("only a buff that acts has a time to act");
            tally.actions += 1;
        }
        if buff.ends <= now {
            *buff = Buff::NONE;
            tally.expired += 1;
        }
    }
}

/// A way to find the buffs that are due.
trait Finder {
    /// Records that a buff was added or removed, or has another deadline.
    fn changed(&mut self, player: usize, kind: usize, due: u64);
    fn run(&mut self, players: &mut [Player], now: u64, tally: &mut Tally);
}

/// Scans every buff in each tick.
struct Scan;

impl Finder for Scan {
    fn changed(&mut self, _: usize, _: usize, _: u64) {}

    fn run(&mut self, players: &mut [Player], now: u64, tally: &mut Tally) {
        for player in players {
            for kind in 0..KINDS.len() {
                if player.buffs[kind].due() <= now {
                    player.run(kind, now, tally);
                }
            }
        }
    }
}

/// Advances a wheel, and visits only the buffs that it yields.
struct ByWheel {
    clock: Wheel<(u32, u8)>,
    keys: Vec<[Option<Key>; KINDS.len()]>,
    due: Vec<(u32, u8)>,
}

impl Finder for ByWheel {
    fn changed(&mut self, player: usize, kind: usize, due: u64) {
        match &mut self.keys[player][kind] {
            key if due == NEVER => _ = key.take().and_then(|key| self.clock.remove(key)),
            Some(key) => _ = self.clock.reset(*key, due),
            vacant => *vacant = Some(self.clock.insert(due, (player as u32, kind as u8))),
        }
    }

    fn run(&mut self, players: &mut [Player], now: u64, tally: &mut Tally) {
        let mut due = std::mem::take(&mut self.due);
        self.clock.advance(now, |_, buff| due.push(buff));
        for (player, kind) in due.drain(..) {
            let player = player as usize;
            let kind = usize::from(kind);
            assert!(players[player].buffs[kind].due() <= now, "the wheel yields only buffs that are due");
            self.keys[player][kind] = None;
            players[player].run(kind, now, tally);
            self.changed(player, kind, players[player].buffs[kind].due());
        }
        self.due = due;
    }
}

struct Game<F> {
    finder: F,
    players: Vec<Player>,
    tally: Tally,
    /// Nanoseconds of work in each tick.
    took: Histogram<u64>,
}

impl<F: Finder> Game<F> {
    fn new(finder: F) -> Self {
        let players = vec![Player { health: 0, buffs: [Buff::NONE; KINDS.len()] }; PLAYERS];
        Self {
            finder,
            players,
            tally: Tally::default(),
            took: Histogram::new(3).expect("3 significant digits are valid"),
        }
    }

    /// Plays the same game for every finder.
    fn play(mut self) -> Self {
        let mut rng = Rng::with_seed(60_60_12);
        for (player, kind) in (0..PLAYERS).flat_map(|player| (0..KINDS.len()).map(move |kind| (player, kind))) {
            if rng.u8(..100) < KINDS[kind].share {
                self.buff(player, kind, 0, rng.u64(1..=KINDS[kind].lasts));
            }
        }
        for now in 1..=TICKS {
            let start = Instant::now();
            for _ in 0..SPELLS {
                let player = rng.usize(..FIGHTING);
                let kind = rng.usize(..CAST);
                self.buff(player, kind, now, KINDS[kind].lasts);
            }
            for _ in 0..DISPELS {
                let player = rng.usize(..FIGHTING);
                self.players[player].dispel(POISON, &mut self.tally);
                self.finder.changed(player, POISON, NEVER);
            }
            self.finder.run(&mut self.players, now, &mut self.tally);
            self.took += start.elapsed().as_nanos() as u64;
        }
        self
    }

    fn buff(&mut self, player: usize, kind: usize, now: u64, lasts: u64) {
        self.players[player].buff(kind, now, lasts, &mut self.tally);
        self.finder.changed(player, kind, self.players[player].buffs[kind].due());
    }
}

fn report(scan: &Game<Scan>, wheel: &Game<ByWheel>, buffs: usize) {
    let Tally { actions, stacked, dispelled, expired } = wheel.tally;
    println!(
        "{} players, at the end with {} buffs, each of them one entry",
        count(PLAYERS as u64),
        count(buffs as u64)
    );
    println!("{:>12} actions\n{:>12} stacked", count(actions), count(stacked));
    println!("{:>12} dispelled\n{:>12} expired\n", count(dispelled), count(expired));

    println!("{:<20}{:>11}{:>11}{:>11}{:>17}", "work in a tick", "p50", "p99", "max", "p50 of 100 ms");
    row("scan every buff", &scan.took);
    row("advance the wheel", &wheel.took);
    let median = |took: &Histogram<u64>| took.value_at_quantile(0.5) as f64;
    println!("{:<20}{:>10.1}x", "ratio", median(&scan.took) / median(&wheel.took));
    println!("\nok: both games ended alike, with an entry in the wheel for each buff");
}

fn row(name: &str, took: &Histogram<u64>) {
    let [p50, p99, max] = [0.5, 0.99, 1.0].map(|quantile| took.value_at_quantile(quantile) as f64 / 1e6);
    let share = 100.0 * p50 / TICK.as_millis() as f64;
    println!("{name:<20}{p50:>8.3} ms{p99:>8.3} ms{max:>8.3} ms{share:>15.2} %");
}
