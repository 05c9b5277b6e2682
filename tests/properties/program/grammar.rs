//! The types of a random program, and how it is generated. Every value is valid: an index out of range wraps around.

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
    /// The settings of the timers, which share a clock. The first step that names a timer builds it.
    #[cfg_attr(test, proptest(strategy = "vec(any::<Settings>(), 1..4)"))]
    #[cfg_attr(not(test), arbitrary(with = timers))]
    pub timers: Vec<Settings>,
    /// What callbacks do: a callback runs one of these lists.
    #[cfg_attr(test, proptest(strategy = "vec(vec(any::<CallbackStep>(), 0..6), 1..5)"))]
    #[cfg_attr(not(test), arbitrary(with = scripts))]
    pub scripts: Vec<Vec<CallbackStep>>,
    #[cfg_attr(test, proptest(strategy = "vec(any::<Step>(), 1..60)"))]
    #[cfg_attr(not(test), arbitrary(with = steps))]
    pub steps: Vec<Step>,
}

#[cfg(not(test))]
fn timers(bytes: &mut Unstructured<'_>) -> Result<Vec<Settings>> {
    (0..bytes.int_in_range(1..=3)?).map(|_| bytes.arbitrary()).collect()
}

#[cfg(not(test))]
fn scripts(bytes: &mut Unstructured<'_>) -> Result<Vec<Vec<CallbackStep>>> {
    let mut script = |_| (0..bytes.int_in_range(0..=5)?).map(|_| callback_step(bytes)).collect();
    (1..5).map(&mut script).collect()
}

#[cfg(not(test))]
fn callback_step(bytes: &mut Unstructured<'_>) -> Result<CallbackStep> {
    Ok(CallbackStep { action: action(bytes)?, target: bytes.arbitrary()? })
}

/// Reads steps until the bytes are used up. `Vec`'s own implementation would end at random after any of them.
#[cfg(not(test))]
fn steps(bytes: &mut Unstructured<'_>) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    while !bytes.is_empty() {
        steps.push(match bytes.ratio(2_u8, 3)? {
            true => Step::Do { timer: bytes.arbitrary()?, action: action(bytes)?, on_new_thread: bytes.arbitrary()? },
            false => bytes.arbitrary()?,
        });
    }
    Ok(steps)
}

/// Replaces most of the actions that end everything by operations on a handle.
#[cfg(not(test))]
fn action(bytes: &mut Unstructured<'_>) -> Result<Action> {
    match bytes.arbitrary()? {
        Action::Panic | Action::Shutdown | Action::DropTimer if !bytes.ratio(1_u8, 8)? => {
            Ok(Action::Handle { which: bytes.arbitrary()?, op: bytes.arbitrary()? })
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
    pub executor: ExecutorKind,
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
pub enum ExecutorKind {
    Inline,
    /// One callback at a time, over all shards.
    Serial,
    /// One background thread, in the order in which `execute` was called.
    Background,
    /// One callback at a time, but one in `one_in` jobs is dropped without being run.
    Dropping {
        #[cfg_attr(test, proptest(strategy = "0..6_u8"))]
        one_in: u8,
    },
    Pool {
        #[cfg_attr(test, proptest(strategy = "0..3_u8"))]
        threads: u8,
    },
    /// A rayon pool that the program built.
    Rayon {
        #[cfg_attr(test, proptest(strategy = "0..3_u8"))]
        threads: u8,
    },
}

/// What the program does outside callbacks.
#[derive(Clone, Copy, Debug, Arbitrary)]
pub enum Step {
    #[cfg_attr(test, proptest(weight = 6))]
    Do {
        timer: u8,
        action: Action,
        /// On a new thread, which then ends.
        on_new_thread: bool,
    },
    /// Advances the clock by a span in ticks of this timer.
    Advance { timer: u8, span: Span },
    /// Advances the clock to the first tick at which a timer is due, or to 1 ns before it.
    AdvanceToNext { just_before: bool },
}

/// What a callback does, on its own `Timer` or on the next one of the program.
#[derive(Clone, Copy, Debug, Arbitrary)]
pub struct CallbackStep {
    pub action: Action,
    pub target: Target,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Arbitrary)]
pub enum Target {
    #[cfg_attr(test, proptest(weight = 3))]
    Own,
    Next,
}

/// What the program and callbacks can do.
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
        schedule: Schedule,
        callback: Script,
        runs: u8,
    },
    /// Schedules several timers, `spacing` ticks apart, and drops their handles.
    ScheduleMany {
        count: u8,
        first: Span,
        spacing: u8,
    },
    #[cfg_attr(test, proptest(weight = 20))]
    Handle {
        which: HandleRef,
        op: HandleOp,
    },
    #[cfg_attr(test, proptest(weight = 25))]
    Sleep {
        slot: u8,
        op: SleepOp,
    },
    /// Panics in a callback; does nothing outside callbacks.
    Panic,
    Shutdown,
    /// Drops the last clone of the `Timer`.
    DropTimer,
}

/// The index of a script.
#[derive(Clone, Copy, Debug, Arbitrary)]
pub struct Script(pub u8);

#[derive(Clone, Copy, Debug, Arbitrary)]
pub enum Schedule {
    FixedRate(Span),
    FixedDelay(Span),
    /// At this span after the deadline of the run.
    Recurring(Span),
}

#[derive(Clone, Copy, Debug, Arbitrary)]
pub enum HandleRef {
    Slot(u8),
    /// The callback's own timer, if its handle is in a slot.
    Own,
}

#[derive(Clone, Copy, Debug, Arbitrary)]
pub enum HandleOp {
    Cancel,
    CancelAndWait,
    #[cfg_attr(test, proptest(weight = 3))]
    Reset(When),
    Check,
    Drop,
    CancelOnDrop,
}

#[derive(Clone, Copy, Debug, Arbitrary)]
pub enum SleepOp {
    #[cfg_attr(test, proptest(weight = 2))]
    Create {
        kind: FutureKind,
        when: When,
    },
    /// Polls the future from one of two tasks.
    #[cfg_attr(test, proptest(weight = 6))]
    Poll {
        second: bool,
    },
    /// Resets a sleep or an interval.
    Reset(When),
    /// Completes the future inside a timeout.
    CompleteInner,
    Drop,
}

#[derive(Clone, Copy, Debug, Arbitrary)]
pub enum FutureKind {
    Sleep,
    Timeout {
        /// Whether the inner future is ready from the start.
        ready: bool,
    },
    Interval {
        period: Span,
        missed: Missed,
    },
}

/// What an interval does about missed ticks.
#[derive(Clone, Copy, Debug, Arbitrary)]
pub enum Missed {
    Burst,
    Delay,
    Skip,
}

#[derive(Clone, Copy, Debug, Arbitrary)]
pub enum When {
    /// Passed as a delay.
    After(Span),
    /// Passed as an instant.
    At(Span),
    Ago(Span),
}

#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(test), derive(Arbitrary))]
pub enum Span {
    Zero,
    OneTick,
    Ticks(u8),
    /// Hundredths of a tick.
    Hundredths(u8),
    /// 2^`bits` + `offset` ticks.
    Power {
        bits: u8,
        offset: i8,
    },
    Never,
}

#[cfg(test)]
impl proptest::arbitrary::Arbitrary for Span {
    type Parameters = ();
    /// Boxed: a strategy that is composed of several of these unboxed would overflow the stack.
    type Strategy = BoxedStrategy<Self>;

    fn arbitrary_with((): ()) -> Self::Strategy {
        prop_oneof![
            2 => Just(Self::Zero),
            2 => Just(Self::OneTick),
            6 => any::<u8>().prop_map(Self::Ticks),
            4 => any::<u8>().prop_map(Self::Hundredths),
            2 => any::<(u8, i8)>().prop_map(|(bits, offset)| Self::Power { bits, offset }),
            1 => Just(Self::Never),
        ]
        .boxed()
    }
}

/// Virtual time ends after 2^48 ticks. Deadlines further ahead are rounded.
pub const MAX_BITS: u8 = 48;

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

    /// Whether at most one callback runs at a time.
    pub fn callbacks_are_serial(&self) -> bool {
        match self.executor {
            ExecutorKind::Inline => self.shards() == 1,
            ExecutorKind::Serial | ExecutorKind::Background | ExecutorKind::Dropping { .. } => true,
            ExecutorKind::Pool { threads } | ExecutorKind::Rayon { threads } => pool_size(threads) == 1,
        }
    }

    /// Whether nothing runs concurrently with a callback, not even a waker.
    pub fn everything_is_serial(&self) -> bool {
        let on_driver =
            matches!(self.executor, ExecutorKind::Inline | ExecutorKind::Serial | ExecutorKind::Dropping { .. });
        self.shards() == 1 && on_driver
    }

    /// `None` where callbacks run concurrently: then the number of pending timers is not deterministic.
    pub fn max_pending(&self) -> Option<usize> {
        self.max_pending.filter(|_| self.callbacks_are_serial()).map(usize::from)
    }
}

/// The number of threads of a pool.
pub fn pool_size(threads: u8) -> usize {
    1 + usize::from(threads % 3)
}

impl Span {
    /// `None` is never.
    pub fn length(self, tick: Duration) -> Option<Duration> {
        match self {
            Self::Zero => Some(Duration::ZERO),
            Self::OneTick => Some(tick),
            Self::Ticks(number) => Some(ticks(tick, number.into())),
            Self::Hundredths(number) => Some(tick * u32::from(number) / 100),
            Self::Power { bits, offset } => {
                Some(ticks(tick, (1_u64 << (bits % MAX_BITS)).saturating_add_signed(offset.into())))
            }
            Self::Never => None,
        }
    }
}

/// The length of `number` ticks.
pub fn ticks(tick: Duration, number: u64) -> Duration {
    of_nanos(tick.as_nanos() * u128::from(number))
}

/// Like `Duration::from_nanos`, for any number that a `Duration` can hold.
pub fn of_nanos(nanos: u128) -> Duration {
    Duration::new((nanos / 1_000_000_000) as u64, (nanos % 1_000_000_000) as u32)
}
