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
    pub settings: Settings,
    /// What callbacks do.
    #[cfg_attr(test, proptest(strategy = "vec(vec(any::<Action>(), 0..6), 1..5)"))]
    #[cfg_attr(not(test), arbitrary(with = scripts))]
    pub scripts: Vec<Vec<Action>>,
    #[cfg_attr(test, proptest(strategy = "vec(any::<Step>(), 1..60)"))]
    #[cfg_attr(not(test), arbitrary(with = steps))]
    pub steps: Vec<Step>,
}

#[cfg(not(test))]
fn scripts(bytes: &mut Unstructured<'_>) -> Result<Vec<Vec<Action>>> {
    let mut script = |_| (0..bytes.int_in_range(0..=5)?).map(|_| action(bytes)).collect();
    (1..5).map(&mut script).collect()
}

/// As many as there are bytes for. By its own rule a `Vec` tosses a coin after each, whether that was the last.
#[cfg(not(test))]
fn steps(bytes: &mut Unstructured<'_>) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    while !bytes.is_empty() {
        steps.push(match bytes.ratio(2_u8, 3)? {
            true => Step::Do { action: action(bytes)?, elsewhere: bytes.arbitrary()? },
            false => bytes.arbitrary()?,
        });
    }
    Ok(steps)
}

/// Seldom one that ends all, and often one that needs another before it.
#[cfg(not(test))]
fn action(bytes: &mut Unstructured<'_>) -> Result<Action> {
    match bytes.arbitrary()? {
        Action::Panic | Action::Shutdown if !bytes.ratio(1_u8, 8)? => {
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
    InTurn,
    Pool {
        #[cfg_attr(test, proptest(strategy = "0..3_u8"))]
        threads: u8,
    },
}

/// What happens outside callbacks.
#[derive(Clone, Copy, Debug, Arbitrary)]
pub enum Step {
    #[cfg_attr(test, proptest(weight = 6))]
    Do {
        action: Action,
        /// On a thread of its own, which ends then.
        elsewhere: bool,
    },
    Advance(Span),
    /// To the first tick that something is due at; or to just before.
    AdvanceToNext {
        short: bool,
    },
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
    #[cfg_attr(test, proptest(weight = 15))]
    Nap {
        slot: u8,
        nap: Nap,
    },
    /// In a callback; elsewhere it is nothing.
    Panic,
    Shutdown,
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
    Begin(When),
    /// By one of two tasks.
    #[cfg_attr(test, proptest(weight = 2))]
    Poll {
        second: bool,
    },
    Reset(When),
    Drop,
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

    /// How many threads a pool has.
    pub fn threads(&self) -> Option<usize> {
        match self.workers {
            Workers::Inline | Workers::InTurn => None,
            Workers::Pool { threads } => Some(1 + usize::from(threads % 3)),
        }
    }

    /// Whether callbacks run one after the other.
    pub fn callbacks_take_turns(&self) -> bool {
        match self.workers {
            Workers::Inline => self.shards() == 1,
            Workers::InTurn => true,
            Workers::Pool { .. } => self.threads() == Some(1),
        }
    }

    /// Whether nothing at all runs beside a callback, not even a waker.
    pub fn all_take_turns(&self) -> bool {
        self.shards() == 1 && self.threads().is_none()
    }

    /// How many places are taken is open while callbacks run beside each other.
    pub fn max_pending(&self) -> Option<usize> {
        self.max_pending.filter(|_| self.callbacks_take_turns()).map(usize::from)
    }
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
    let nanos = tick.as_nanos() * u128::from(number);
    Duration::new((nanos / 1_000_000_000) as u64, (nanos % 1_000_000_000) as u32)
}
