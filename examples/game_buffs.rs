//! The buffs of a game server, on a wheel that the game loop owns and turns.
//!
//! ```text
//! cargo run --release --example game_buffs
//! ```
//!
//! Game servers have long kept buffs and cooldowns on a clock of wheels: 60 seconds, 60 minutes, 12 hours. The first
//! part shows such a clock as it turns: a timer waits at the hand that still reaches it, and hops from hand to hand.
//! The second is a game loop. Its players have buffs that act every 3 s, stack, expire and get dispelled; each buff is
//! one entry of the wheel, however often it is to act. Beside it runs the same game with the loop that the wheel
//! replaces: it looks at every buff of every player in each tick. Both must come to the same end, act for act.

use std::time::{Duration, Instant};

use corewheel::{BuildError, Key, Wheel};
use fastrand::Rng;
use hdrhistogram::Histogram;
use indicatif::HumanCount;

/// A tick of the game, and of the wheel.
const TICK: Duration = Duration::from_millis(100);
const SECOND: u64 = 10;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const NEVER: u64 = u64::MAX;

/// The slots of each hand of the clock.
const CLOCK: [usize; 4] = [10, 60, 60, 12];
const HANDS: [&str; 4] = ["100 ms", "second", "minute", "hour"];

const PLAYERS: usize = 100_000;
/// The first so many of them are in a fight.
const FIGHTING: usize = 10_000;
const TICKS: u64 = MINUTE;
/// In each tick.
const SPELLS: usize = 500;
const DISPELS: usize = 50;

fn main() -> Result<(), BuildError> {
    assert_eq!(turn(2 * MINUTE + 4 * SECOND + 3)?, [(2, 2), (1, 4), (0, 3)]);
    assert_eq!(turn(9 * HOUR + 30 * MINUTE + 5 * SECOND + 7)?, [(3, 9), (2, 30), (1, 5), (0, 7)]);

    let scan = Game::new(Scan).play();
    let clock = Wheel::with_levels(0, &CLOCK)?;
    let wheel = Game::new(Turn { clock, keys: vec![[None; KINDS.len()]; PLAYERS], due: Vec::new() }).play();

    let buffs = wheel.players.iter().flat_map(|player| &player.buffs).filter(|buff| buff.stacks > 0).count();
    assert!(scan.players == wheel.players && scan.tally == wheel.tally, "the two games differ");
    assert_eq!(wheel.finder.clock.len(), buffs, "an entry for each buff");
    report(&scan, &wheel, buffs);
    Ok(())
}

/// Turns the clock from event to event until a timer is due. The hands it waited at, and the slots.
fn turn(deadline: u64) -> Result<Vec<(usize, u64)>, BuildError> {
    let mut clock = Wheel::with_levels(0, &CLOCK)?;
    let key = clock.insert(deadline, ());
    let mut hops = Vec::new();
    println!("a timer at {}", time(deadline));
    while let Some((level, first, last)) = clock.position(key) {
        let slot = first / (last - first + 1) % CLOCK[level] as u64;
        let dial: String = (0..CLOCK[level] as u64).map(|place| if place == slot { 'O' } else { '.' }).collect();
        let [now, first, last] = [clock.now(), first, last].map(time);
        println!("  {now}  {:<6}  {dial:<60}  slot {slot:<2} {first} ..{last}", HANDS[level]);
        hops.push((level, slot));
        clock.advance(clock.next_deadline().expect("the timer waits"), |due, ()| assert_eq!(due, deadline));
    }
    assert_eq!(clock.now(), deadline);
    println!("  {}  fired\n", time(deadline));
    Ok(hops)
}

/// Hours, minutes, and seconds with tenths.
fn time(tick: u64) -> String {
    let (hours, minutes) = (tick / HOUR, tick / MINUTE % 60);
    format!("{hours:2}:{minutes:02}:{:02}.{}", tick / SECOND % 60, tick % SECOND)
}

struct Kind {
    /// How many ticks from one action to the next.
    every: Option<u64>,
    lasts: u64,
    /// What a stack of it does to the player's health.
    power: i64,
    stacks: u32,
    /// In percent: how many of the players have it from the beginning.
    share: u8,
}

/// What is cast in a fight, first; then what players wear for long.
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
    /// None where the player has no such buff.
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
    /// Adds a stack, and makes the buff last from now.
    fn buff(&mut self, kind: usize, now: u64, lasts: u64, tally: &mut Tally) {
        let (Kind { every, stacks, .. }, buff) = (&KINDS[kind], &mut self.buffs[kind]);
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

    /// Has a buff do what it is due to do.
    fn run(&mut self, kind: usize, now: u64, tally: &mut Tally) {
        let buff = &mut self.buffs[kind];
        if buff.acts <= now {
            self.health += KINDS[kind].power * i64::from(buff.stacks);
            buff.acts += KINDS[kind].every.expect("it acts");
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
    /// A buff has come, gone, or changed its time.
    fn changed(&mut self, player: usize, kind: usize, due: u64);
    fn run(&mut self, players: &mut [Player], now: u64, tally: &mut Tally);
}

/// Looks at every buff in each tick.
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

/// Turns the clock, and looks at what it gives.
struct Turn {
    clock: Wheel<(u32, u8)>,
    keys: Vec<[Option<Key>; KINDS.len()]>,
    due: Vec<(u32, u8)>,
}

impl Finder for Turn {
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
            let (player, kind) = (player as usize, usize::from(kind));
            assert!(players[player].buffs[kind].due() <= now, "the wheel gives what is due");
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
    /// How long each tick's work took, in nanoseconds.
    took: Histogram<u64>,
}

impl<F: Finder> Game<F> {
    fn new(finder: F) -> Self {
        let players = vec![Player { health: 0, buffs: [Buff::NONE; KINDS.len()] }; PLAYERS];
        Self { finder, players, tally: Tally::default(), took: Histogram::new(3).expect("three digits are possible") }
    }

    /// The same game for every finder.
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
                let (player, kind) = (rng.usize(..FIGHTING), rng.usize(..CAST));
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

fn report(scan: &Game<Scan>, wheel: &Game<Turn>, buffs: usize) {
    let count = |count| HumanCount(count).to_string();
    let Tally { actions, stacked, dispelled, expired } = wheel.tally;
    println!("{} players in the end with {} buffs: as many entries", count(PLAYERS as u64), count(buffs as u64));
    println!("{:>12} actions\n{:>12} stacked", count(actions), count(stacked));
    println!("{:>12} dispelled\n{:>12} expired\n", count(dispelled), count(expired));

    println!("{:<20}{:>11}{:>11}{:>11}{:>17}", "work in a tick", "p50", "p99", "max", "p50 of 100 ms");
    row("look at every buff", &scan.took);
    row("turn the wheel", &wheel.took);
    let median = |took: &Histogram<u64>| took.value_at_quantile(0.5) as f64;
    println!("{:<20}{:>10.1}x", "ratio", median(&scan.took) / median(&wheel.took));
}

fn row(name: &str, took: &Histogram<u64>) {
    let [p50, p99, max] = [0.5, 0.99, 1.0].map(|quantile| took.value_at_quantile(quantile) as f64 / 1e6);
    let share = 100.0 * p50 / TICK.as_millis() as f64;
    println!("{name:<20}{p50:>8.3} ms{p99:>8.3} ms{max:>8.3} ms{share:>15.2} %");
}
