//! What a program says. Any bytes make sense: numbers too large for what they name are wrapped around.

use std::time::Duration;

#[cfg(not(test))]
use arbitrary::{Arbitrary, Result, Unstructured};
#[cfg(test)]
use proptest::{
    collection::vec,
    prelude::{BoxedStrategy, Just, Strategy, any, prop_oneof},
};
#[cfg(test)]
use proptest_derive::Arbitrary;

#[derive(Clone, Debug, Arbitrary)]
pub struct Program {
    /// Of the timers, which share a clock. Each is built by the first step that names it.
    #[cfg_attr(test, proptest(strategy = "vec(any::<Settings>(), 1..4)"))]
    #[cfg_attr(not(test), arbitrary(with = timers))]
    pub timers: Vec<Settings>,
    /// What callbacks do.
    #[cfg_attr(test, proptest(strategy = "vec(vec(any::<Line>(), 0..6), 1..5)"))]
    #[cfg_attr(not(test), arbitrary(with = scripts))]
    pub scripts: Vec<Vec<Line>>,
    #[cfg_attr(test, proptest(strategy = "vec(any::<Step>(), 1..60)"))]
    #[cfg_attr(not(test), arbitrary(with = steps))]
    pub steps: Vec<Step>,
}

#[cfg(not(test))]
fn timers(bytes: &mut Unstructured<'_>) -> Result<Vec<Settings>> {
    (0..bytes.int_in_range(1..=3)?).map(|_| bytes.arbitrary()).collect()
}

#[cfg(not(test))]
fn scripts(bytes: &mut Unstructured<'_>) -> Result<Vec<Vec<Line>>> {
    let mut script = |_| (0..bytes.int_in_range(0..=5)?).map(|_| line(bytes)).collect();
    (1..5).map(&mut script).collect()
}

#[cfg(not(test))]
fn line(bytes: &mut Unstructured<'_>) -> Result<Line> {
    Ok(Line { action: action(bytes)?, aim: bytes.arbitrary()? })
}

/// As many as there are bytes for. By its own rule a `Vec` tosses a coin after each, whether that was the last.
#[cfg(not(test))]
fn steps(bytes: &mut Unstructured<'_>) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    while !bytes.is_empty() {
        steps.push(match bytes.ratio(2_u8, 3)? {
            true => Step::Do { timer: bytes.arbitrary()?, action: action(bytes)?, elsewhere: bytes.arbitrary()? },
            false => bytes.arbitrary()?,
        });
    }
    Ok(steps)
}

/// Seldom one that ends all, and often one that needs another before it.
#[cfg(not(test))]
fn action(bytes: &mut Unstructured<'_>) -> Result<Action> {
    match bytes.arbitrary()? {
        Action::Panic | Action::Shutdown | Action::DropTimer if !bytes.ratio(1_u8, 8)? => {
            Ok(Action::Touch { whose: bytes.arbitrary()?, touch: bytes.arbitrary()? })
        }
        action => Ok(action),
    }
}

#[derive(Clone, Debug, Arbitrary)]
pub struct Settings {
    pub tick: Tick,
    #[cfg_attr(test, proptest(strategy = "0..4_u8"))]
    pub shards: u8,
    #[cfg_attr(test, proptest(strategy = "vec(any::<u8>(), 0..4)"))]
    pub wheel: Vec<u8>,
    pub workers: Workers,
    pub max_pending: Option<u8>,
}

#[derive(Clone, Copy, Debug, Arbitrary)]
pub enum Tick {
    Millisecond,
    Microsecond,
    Odd,
    Second,
    Hour,
}

#[derive(Clone, Copy, Debug, Arbitrary)]
pub enum Workers {
    Inline,
    /// One callback at a time, in whichever shard.
    InTurn,
    /// On another thread, in the order of their hand-over.
    Later,
    /// One at a time, but one in some jobs is dropped unrun.
    Dropping {
        #[cfg_attr(test, proptest(strategy = "0..6_u8"))]
        one_in: u8,
    },
    Pool {
        #[cfg_attr(test, proptest(strategy = "0..3_u8"))]
        threads: u8,
    },
    /// A rayon pool of the caller's.
    Rayon {
        #[cfg_attr(test, proptest(strategy = "0..3_u8"))]
        threads: u8,
    },
}

/// What happens outside callbacks.
#[derive(Clone, Copy, Debug, Arbitrary)]
pub enum Step {
    #[cfg_attr(test, proptest(weight = 6))]
    Do {
        timer: u8,
        action: Action,
        /// On a thread of its own, which ends then.
        elsewhere: bool,
    },
    /// By a span in ticks of this timer.
    Advance { timer: u8, span: Span },
    /// To the first tick that something is due at; or to just before.
    AdvanceToNext { short: bool },
}

/// What a callback does, to its own timer or to the next of the program.
#[derive(Clone, Copy, Debug, Arbitrary)]
pub struct Line {
    pub action: Action,
    pub aim: Aim,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Arbitrary)]
pub enum Aim {
    #[cfg_attr(test, proptest(weight = 3))]
    Own,
    Next,
}

/// What anybody may do.
#[derive(Clone, Copy, Debug, Arbitrary)]
pub enum Action {
    #[cfg_attr(test, proptest(weight = 20))]
    Schedule {
        slot: u8,
        when: When,
        callback: Script,
    },
    #[cfg_attr(test, proptest(weight = 10))]
    Repeat {
        slot: u8,
        first: Span,
        rule: Rule,
        callback: Script,
        runs: u8,
    },
    /// Many timers without a handle, each so many ticks later than the one before.
    Crowd {
        number: u8,
        first: Span,
        apart: u8,
    },
    #[cfg_attr(test, proptest(weight = 20))]
    Touch {
        whose: Whose,
        touch: Touch,
    },
    #[cfg_attr(test, proptest(weight = 25))]
    Nap {
        slot: u8,
        nap: Nap,
    },
    /// In a callback; elsewhere it is nothing.
    Panic,
    Shutdown,
    /// Drops the last clone of the `Timer`.
    DropTimer,
}

/// Which of the scripts.
#[derive(Clone, Copy, Debug, Arbitrary)]
pub struct Script(pub u8);

#[derive(Clone, Copy, Debug, Arbitrary)]
pub enum Rule {
    FixedRate(Span),
    FixedDelay(Span),
    /// After the deadline that it ran for.
    Recurring(Span),
}

#[derive(Clone, Copy, Debug, Arbitrary)]
pub enum Whose {
    Slot(u8),
    /// The callback's own timer, if its handle is in a slot.
    Own,
}

#[derive(Clone, Copy, Debug, Arbitrary)]
pub enum Touch {
    Cancel,
    CancelAndWait,
    #[cfg_attr(test, proptest(weight = 3))]
    Reset(When),
    Look,
    Drop,
    CancelOnDrop,
}

#[derive(Clone, Copy, Debug, Arbitrary)]
pub enum Nap {
    #[cfg_attr(test, proptest(weight = 2))]
    Begin {
        future: Future,
        when: When,
    },
    /// By one of two tasks.
    #[cfg_attr(test, proptest(weight = 6))]
    Poll {
        second: bool,
    },
    /// Of a sleep, or of an interval.
    Reset(When),
    /// Makes the future ready that a timeout waits for.
    Answer,
    Drop,
}

#[derive(Clone, Copy, Debug, Arbitrary)]
pub enum Future {
    Sleep,
    Timeout {
        /// Whether the other future is ready from the beginning.
        ready: bool,
    },
    Interval {
        period: Span,
        missed: Missed,
    },
}

/// What becomes of ticks that nobody awaited in time.
#[derive(Clone, Copy, Debug, Arbitrary)]
pub enum Missed {
    Burst,
    Delay,
    Skip,
}

#[derive(Clone, Copy, Debug, Arbitrary)]
pub enum When {
    /// Told as a delay.
    After(Span),
    /// Told as an instant.
    At(Span),
    Ago(Span),
}

#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(test), derive(Arbitrary))]
pub enum Span {
    Zero,
    OneTick,
    Ticks(u8),
    /// So many 100ths of a tick.
    Hundredths(u8),
    /// About so many doublings of a tick.
    Power {
        bits: u8,
        more: i8,
    },
    Never,
}

#[cfg(test)]
impl proptest::arbitrary::Arbitrary for Span {
    type Parameters = ();
    /// Boxed, as what is made of several spans in several ways would be too large for the stack.
    type Strategy = BoxedStrategy<Self>;

    fn arbitrary_with((): ()) -> Self::Strategy {
        prop_oneof![
            2 => Just(Self::Zero),
            2 => Just(Self::OneTick),
            6 => any::<u8>().prop_map(Self::Ticks),
            4 => any::<u8>().prop_map(Self::Hundredths),
            2 => any::<(u8, i8)>().prop_map(|(bits, more)| Self::Power { bits, more }),
            1 => Just(Self::Never),
        ]
        .boxed()
    }
}

/// Farther away than 2^48 ticks deadlines are rounded.
const MOST_BITS: u8 = 48;

impl Tick {
    pub fn length(self) -> Duration {
        match self {
            Self::Millisecond => Duration::from_millis(1),
            Self::Microsecond => Duration::from_micros(1),
            Self::Odd => Duration::from_nanos(3_333_337),
            Self::Second => Duration::from_secs(1),
            Self::Hour => Duration::from_secs(3600),
        }
    }
}

impl Settings {
    pub fn shards(&self) -> usize {
        1 + usize::from(self.shards % 4)
    }

    pub fn slots_per_level(&self) -> Vec<usize> {
        self.wheel.iter().map(|&slots| usize::from(slots.max(2))).collect()
    }

    /// Whether callbacks run one after the other.
    pub fn callbacks_take_turns(&self) -> bool {
        match self.workers {
            Workers::Inline => self.shards() == 1,
            Workers::InTurn | Workers::Later | Workers::Dropping { .. } => true,
            Workers::Pool { threads } | Workers::Rayon { threads } => number_of(threads) == 1,
        }
    }

    /// Whether nothing at all runs beside a callback, not even a waker.
    pub fn all_take_turns(&self) -> bool {
        let on_driver = matches!(self.workers, Workers::Inline | Workers::InTurn | Workers::Dropping { .. });
        self.shards() == 1 && on_driver
    }

    /// How many places are taken is open while callbacks run beside each other.
    pub fn max_pending(&self) -> Option<usize> {
        self.max_pending.filter(|_| self.callbacks_take_turns()).map(usize::from)
    }
}

/// The threads of a pool.
pub fn number_of(threads: u8) -> usize {
    1 + usize::from(threads % 3)
}

impl Span {
    /// `None` is forever.
    pub fn length(self, tick: Duration) -> Option<Duration> {
        match self {
            Self::Zero => Some(Duration::ZERO),
            Self::OneTick => Some(tick),
            Self::Ticks(number) => Some(ticks(tick, number.into())),
            Self::Hundredths(number) => Some(tick * u32::from(number) / 100),
            Self::Power { bits, more } => {
                Some(ticks(tick, (1_u64 << (bits % MOST_BITS)).saturating_add_signed(more.into())))
            }
            Self::Never => None,
        }
    }
}

/// So many ticks of this length.
pub fn ticks(tick: Duration, number: u64) -> Duration {
    of_nanos(tick.as_nanos() * u128::from(number))
}

/// So many nanoseconds.
pub fn of_nanos(nanos: u128) -> Duration {
    Duration::new((nanos / 1_000_000_000) as u64, (nanos % 1_000_000_000) as u32)
}
