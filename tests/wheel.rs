//! The wheel against a model that knows the rule of placement and nothing else.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use corewheel::{Key, Wheel};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

type Position = (usize, u64, u64);

/// A tick, told from the present one.
#[derive(Clone, Copy, Debug)]
enum When {
    Before(u64),
    After(u64),
    At(u64),
}

impl When {
    fn tick(self, now: u64) -> u64 {
        match self {
            When::Before(delta) => now.saturating_sub(delta),
            When::After(delta) => now.saturating_add(delta),
            When::At(tick) => tick,
        }
    }
}

#[derive(Clone, Debug)]
enum Operation {
    Insert(When),
    Remove(Index),
    Reset(Index, When),
    Change(Index),
    Advance(When),
    AdvanceToNext,
    UseStaleKey(Index),
    Clear,
}

/// Any number of bits is as likely as any other.
fn any_magnitude() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0..=64_u32).prop_map(|(n, bits)| n.checked_shr(64 - bits).unwrap_or(0))
}

fn when() -> impl Strategy<Value = When> {
    prop_oneof![
        1 => any_magnitude().prop_map(When::Before),
        3 => (0..200_u64).prop_map(When::After),
        6 => any_magnitude().prop_map(When::After),
        1 => (0..3_u64).prop_map(|n| When::At(u64::MAX - n)),
    ]
}

/// As [`when`], but rarely beyond all deadlines.
fn jump() -> impl Strategy<Value = When> {
    prop_oneof![
        1 => any_magnitude().prop_map(When::Before),
        4 => (0..100_u64).prop_map(When::After),
        4 => any_magnitude().prop_map(|n| When::After(n >> 32)),
        1 => any_magnitude().prop_map(When::After),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        40 => when().prop_map(Operation::Insert),
        10 => any::<Index>().prop_map(Operation::Remove),
        10 => (any::<Index>(), when()).prop_map(|(entry, when)| Operation::Reset(entry, when)),
        5 => any::<Index>().prop_map(Operation::Change),
        15 => jump().prop_map(Operation::Advance),
        15 => Just(Operation::AdvanceToNext),
        5 => any::<Index>().prop_map(Operation::UseStaleKey),
        1 => Just(Operation::Clear),
    ]
}

fn geometry() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![
        4 => vec(2..=100_usize, 1..=5),
        1 => vec(prop_oneof![Just(2), Just(8), Just(64)], 1..=5),
        1 => vec(prop_oneof![3..=5_usize, Just(5000), Just(300_000)], 1..=2),
    ]
}

fn start() -> impl Strategy<Value = u64> {
    let edge = prop_oneof![Just(0), Just(1 << 30), Just(1 << 36), Just(1 << 63), Just(u64::MAX), any::<u64>()];
    (edge, any_magnitude(), any::<bool>()).prop_map(|(edge, offset, near)| {
        let offset = if near { offset >> 52 } else { offset >> 20 };
        edge.saturating_sub(offset)
    })
}

/// The rule of placement: the lowest level whose window at `now` contains the deadline.
fn slot(geometry: &[usize], now: u64, deadline: u64) -> Position {
    let (now, deadline) = (u128::from(now), u128::from(deadline));
    let mut level = 0;
    let mut span = 1;
    loop {
        let slots = *geometry.get(level).or(geometry.last()).unwrap() as u128;
        if deadline / span - now / span < slots {
            let first = deadline / span * span;
            let last = (first + span - 1).min(u128::from(u64::MAX));
            return (level, first as u64, last as u64);
        }
        span *= slots;
        level += 1;
    }
}

#[derive(Clone, Debug)]
struct Entry {
    key: Key,
    value: u64,
    deadline: u64,
    /// `None` if it was due when it was inserted.
    position: Option<Position>,
}

struct Model {
    geometry: Vec<usize>,
    now: u64,
    /// In order of insertion or reset.
    entries: Vec<Entry>,
    stale: Vec<Key>,
    values: u64,
}

impl Model {
    fn add(&mut self, key: Key, value: u64, deadline: u64) {
        let waits = deadline > self.now;
        let position = waits.then(|| slot(&self.geometry, self.now, deadline));
        self.entries.push(Entry { key, value, deadline, position });
    }

    fn choose(&self, index: &Index) -> Option<usize> {
        (!self.entries.is_empty()).then(|| index.index(self.entries.len()))
    }

    fn take(&mut self, index: usize) -> Entry {
        let entry = self.entries.remove(index);
        self.stale.push(entry.key);
        entry
    }

    /// Hands down and expires up to `target`; the expired: those that had been due in order, then the
    /// others by deadline.
    fn advance(&mut self, target: u64) -> Vec<(u64, u64)> {
        if target < self.now {
            return Vec::new();
        }
        self.now = target;
        let (mut expired, waiting): (Vec<_>, Vec<_>) =
            self.entries.drain(..).partition(|entry| entry.deadline <= target);
        self.entries = waiting;
        for entry in &mut self.entries {
            while let Some((_, first, _)) = entry.position
                && first <= target
            {
                entry.position = Some(slot(&self.geometry, first, entry.deadline));
            }
        }
        self.stale.extend(expired.iter().map(|entry| entry.key));
        expired.sort_by_key(|entry| entry.position.map(|_| (entry.deadline, entry.value)));
        expired.iter().map(|entry| (entry.deadline, entry.value)).collect()
    }

    fn next_event(&self) -> Option<u64> {
        let event = |entry: &Entry| entry.position.map_or(self.now, |(_, first, _)| first);
        self.entries.iter().map(event).min()
    }
}

/// Order among equal deadlines is not promised; that of entries that had been due is, and they keep the
/// deadline they were given, so that only what comes after them is put in order.
fn in_model_order(mut expired: Vec<(u64, u64)>, due: usize) -> Vec<(u64, u64)> {
    let deadlines = expired[due..].iter().map(|(deadline, _)| deadline);
    assert!(deadlines.is_sorted(), "out of order: {expired:?}");
    expired[due..].sort_unstable();
    expired
}

fn check(wheel: &mut Wheel<u64>, model: &Model) {
    assert_eq!(wheel.now(), model.now);
    assert_eq!(wheel.len(), model.entries.len());
    assert_eq!(wheel.is_empty(), model.entries.is_empty());

    let next = wheel.next_deadline();
    let earliest = model.entries.iter().map(|entry| entry.deadline).min();
    assert_eq!(next, model.next_event());
    assert!(earliest.is_none_or(|earliest| next <= Some(earliest.max(model.now))));

    for entry in &model.entries {
        assert_eq!(wheel.get(entry.key), Some(&entry.value));
        assert_eq!(wheel.position(entry.key), entry.position, "{entry:?}");
    }
    let expected: BTreeMap<_, _> =
        (model.entries.iter()).map(|entry| (entry.value, (entry.key, entry.deadline))).collect();
    assert_eq!(wheel.iter().count(), expected.len());
    assert!(wheel.iter().all(|(key, deadline, value)| expected[value] == (key, deadline)));
}

fn apply(wheel: &mut Wheel<u64>, model: &mut Model, operation: Operation) {
    match operation {
        Operation::Insert(when) => {
            let deadline = when.tick(model.now);
            let value = model.values;
            model.values += 1 << 32;
            let key = wheel.insert(deadline, value);
            assert!(model.entries.iter().all(|entry| entry.key != key));
            assert!(!model.stale.contains(&key));
            model.add(key, value, deadline);
        }
        Operation::Remove(index) => {
            if let Some(index) = model.choose(&index) {
                let entry = model.take(index);
                assert_eq!(wheel.remove(entry.key), Some(entry.value));
            }
        }
        Operation::Reset(index, when) => {
            if let Some(index) = model.choose(&index) {
                let deadline = when.tick(model.now);
                let entry = model.entries.remove(index);
                assert!(wheel.reset(entry.key, deadline));
                model.add(entry.key, entry.value, deadline);
            }
        }
        Operation::Change(index) => {
            if let Some(index) = model.choose(&index) {
                let entry = &mut model.entries[index];
                *wheel.get_mut(entry.key).expect("it is pending") += 1;
                entry.value += 1;
            }
        }
        Operation::Advance(when) => advance(wheel, model, when.tick(model.now)),
        Operation::AdvanceToNext => {
            if let Some(next) = wheel.next_deadline() {
                advance(wheel, model, next);
            }
        }
        Operation::UseStaleKey(index) => {
            if !model.stale.is_empty() {
                let key = model.stale[index.index(model.stale.len())];
                assert_eq!(wheel.get(key), None);
                assert_eq!(wheel.get_mut(key), None);
                assert_eq!(wheel.position(key), None);
                assert!(!wheel.reset(key, 0));
                assert_eq!(wheel.remove(key), None);
            }
        }
        Operation::Clear => {
            wheel.clear();
            model.stale.extend(model.entries.drain(..).map(|entry| entry.key));
        }
    }
}

fn advance(wheel: &mut Wheel<u64>, model: &mut Model, target: u64) {
    let due = model.entries.iter().filter(|entry| entry.position.is_none()).count();
    let mut expired = Vec::new();
    wheel.advance(target, |deadline, value| expired.push((deadline, value)));
    let due = due.min(expired.len());
    assert_eq!(in_model_order(expired, due), model.advance(target));
}

fn set_up(start: u64, geometry: Vec<usize>) -> (Wheel<u64>, Model) {
    let wheel = Wheel::with_levels(start, &geometry).expect("valid levels");
    let model = Model { geometry, now: start, entries: Vec::new(), stale: Vec::new(), values: 0 };
    (wheel, model)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn behaves_as_its_model(
        start in start(),
        geometry in geometry(),
        operations in vec(operation(), 1..120),
    ) {
        let (mut wheel, mut model) = set_up(start, geometry);
        for operation in operations {
            apply(&mut wheel, &mut model, operation);
            check(&mut wheel, &model);
        }
        advance(&mut wheel, &mut model, u64::MAX);
        check(&mut wheel, &model);
        prop_assert!(wheel.is_empty());
    }

    /// Whatever is done to the wheel after a panic, what is left comes out in order.
    #[test]
    fn a_panicking_callback_leaves_the_rest_in_place(
        start in start(),
        geometry in geometry(),
        deadlines in vec((0..3_u64, 0..50_u64), 2..40),
        changes in vec((any::<Index>(), when()), 0..10),
        bomb in any::<Index>(),
    ) {
        let (mut wheel, mut model) = set_up(start, geometry);
        let scale = model.geometry[0] as u64;
        for (coarse, fine) in deadlines {
            let when = When::After(coarse * scale * scale + fine / 10 * scale);
            apply(&mut wheel, &mut model, Operation::Insert(when));
        }
        let target = start.saturating_add(4 * scale * scale);
        let due = model.entries.iter().filter(|entry| entry.position.is_none()).count();
        let handed_over = bomb.index(model.entries.len());
        let mut expired = Vec::new();
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            wheel.advance(target, |deadline, value| {
                expired.push((deadline, value));
                if expired.len() > handed_over {
                    resume_unwind(Box::new("a panic"));
                }
            });
        }));
        prop_assert!(outcome.is_err());
        let (last, _) = expired[handed_over];
        let due_left = due.saturating_sub(expired.len());
        in_model_order(expired.clone(), due - due_left);

        model.now = last;
        model.entries.retain(|entry| !expired.contains(&(entry.deadline, entry.value)));
        prop_assert_eq!(wheel.now(), last);
        prop_assert_eq!(wheel.len(), model.entries.len());
        let earliest = model.entries.iter().map(|entry| entry.deadline).min();
        prop_assert!(earliest.is_none_or(|earliest| wheel.next_deadline() <= Some(earliest)));

        for (index, when) in changes {
            apply(&mut wheel, &mut model, Operation::Reset(index, when));
            apply(&mut wheel, &mut model, Operation::Remove(index));
            apply(&mut wheel, &mut model, Operation::Insert(when));
        }
        advance(&mut wheel, &mut model, target);
        advance(&mut wheel, &mut model, u64::MAX);
        check(&mut wheel, &model);
    }
}

#[test]
fn what_is_due_comes_first_in_order_with_its_own_deadline() {
    let mut wheel = Wheel::new(100);
    wheel.insert(100, "a");
    wheel.insert(7, "b");
    let moved = wheel.insert(90, "c");
    let removed = wheel.insert(3, "d");
    wheel.insert(101, "later");
    wheel.insert(0, "e");
    assert!(wheel.reset(moved, 50));
    assert_eq!(wheel.remove(removed), Some("d"));
    assert_eq!(wheel.position(moved), None);
    assert_eq!(wheel.next_deadline(), Some(100));

    let mut expired = Vec::new();
    wheel.advance(100, |deadline, name| expired.push((deadline, name)));
    assert_eq!(expired, [(100, "a"), (7, "b"), (0, "e"), (50, "c")]);
    assert_eq!(wheel.len(), 1);
}

#[test]
fn an_earlier_tick_does_nothing() {
    let mut wheel = Wheel::new(100);
    wheel.insert(50, ());
    wheel.advance(99, |_, ()| unreachable!());
    assert_eq!((wheel.now(), wheel.len()), (100, 1));
}

/// A wheel at these ticks with one far timer and one near one has lost the near one elsewhere.
#[test]
fn a_far_and_a_near_timer_at_the_edges_of_wide_counters() {
    for edge in [1 << 30, 1 << 32, 1 << 36, 1 << 48, u64::MAX / 2, u64::MAX - 2000] {
        for start in edge - 70..edge + 70 {
            let mut wheel = Wheel::new(start);
            wheel.insert(u64::MAX, "far");
            wheel.insert(start + 75, "near");
            let mut expired = Vec::new();
            wheel.advance(start + 74, |_, _| unreachable!());
            wheel.advance(start + 75, |deadline, _| expired.push(deadline));
            assert_eq!(expired, [start + 75]);
            wheel.advance(u64::MAX - 1, |_, _| unreachable!());
            wheel.advance(u64::MAX, |deadline, _| expired.push(deadline));
            assert_eq!(expired[1..], [u64::MAX]);
        }
    }
}

#[test]
fn holds_values_that_stay_on_their_thread_and_drops_each_once() {
    let value = std::rc::Rc::new(());
    let mut wheel = Wheel::new(0);
    let keys: Vec<_> = (0..10).map(|n| wheel.insert(n, value.clone())).collect();
    wheel.advance(3, |_, _| {});
    wheel.remove(keys[5]);
    assert_eq!(std::rc::Rc::strong_count(&value), 1 + 5);
    wheel.clear();
    assert_eq!(std::rc::Rc::strong_count(&value), 1);
    assert_eq!(wheel.next_deadline(), None);
    wheel.insert(20, value.clone());
    drop(wheel);
    assert_eq!(std::rc::Rc::strong_count(&value), 1);
}
