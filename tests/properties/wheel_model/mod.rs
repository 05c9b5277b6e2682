//! A model of the wheel, which contains the rule of placement and a list of entries.
//!
//! Shared by a test, which generates operations with proptest, and by a fuzz target, which generates them with
//! `arbitrary`.

use std::collections::BTreeMap;

#[cfg(not(test))]
use arbitrary::Arbitrary;
use corewheel::{Key, Wheel};

pub type Position = (usize, u64, u64);

/// A tick, most often relative to the present one.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(test), derive(Arbitrary))]
pub enum When {
    Before(u64),
    After(u64),
    At(u64),
}

impl When {
    pub fn tick(self, now: u64) -> u64 {
        match self {
            When::Before(delta) => now.saturating_sub(delta),
            When::After(delta) => now.saturating_add(delta),
            When::At(tick) => tick,
        }
    }
}

/// An operation. Indices of entries and stale keys wrap around.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(test), derive(Arbitrary))]
pub enum Operation {
    Insert(When),
    Remove(u16),
    Reset(u16, When),
    Change(u16),
    Advance(When),
    AdvanceToNext,
    UseStaleKey(u16),
    Clear,
    ShrinkToFit,
}

/// Returns the slot of a deadline by the rule of placement: on the lowest level whose window at `now` contains it.
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
pub struct Entry {
    key: Key,
    pub value: u64,
    pub deadline: u64,
    /// `None` if the entry was due when it was inserted.
    pub position: Option<Position>,
}

pub struct Model {
    pub geometry: Vec<usize>,
    pub now: u64,
    /// In order of insertion or reset.
    pub entries: Vec<Entry>,
    /// For each occupied slot, the least deadline of the entries that were placed there since it was empty.
    least: BTreeMap<Position, u64>,
    stale: Vec<Key>,
    values: u64,
}

impl Model {
    fn add(&mut self, key: Key, value: u64, deadline: u64) {
        let waits = deadline > self.now;
        let position = waits.then(|| slot(&self.geometry, self.now, deadline));
        self.entries.push(Entry { key, value, deadline, position });
        self.place();
    }

    /// Updates the least deadline of each slot.
    fn place(&mut self) {
        self.least.retain(|slot, _| self.entries.iter().any(|entry| entry.position == Some(*slot)));
        for entry in &self.entries {
            if let Some(slot) = entry.position {
                let least = self.least.entry(slot).or_insert(entry.deadline);
                *least = entry.deadline.min(*least);
            }
        }
    }

    fn entry_index(&self, index: u16) -> Option<usize> {
        (!self.entries.is_empty()).then(|| usize::from(index) % self.entries.len())
    }

    fn take(&mut self, index: usize) -> Entry {
        let entry = self.entries.remove(index);
        self.stale.push(entry.key);
        self.place();
        entry
    }

    /// Cascades and expires entries up to `target`. Returns those that expired: first those inserted as due, in order;
    /// then the others by deadline.
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
        self.place();
        self.stale.extend(expired.iter().map(|entry| entry.key));
        expired.sort_by_key(|entry| entry.position.map(|_| (entry.deadline, entry.value)));
        expired.iter().map(|entry| (entry.deadline, entry.value)).collect()
    }

    fn next_deadline(&self) -> Option<u64> {
        let is_due = self.entries.iter().any(|entry| entry.position.is_none());
        if is_due { Some(self.now) } else { self.least.values().min().copied() }
    }
}

/// Sorts the entries after the first `due` by deadline and value, because the wheel promises no order among equal
/// deadlines. The first `due` entries were inserted as due; these keep their order and their deadlines.
pub fn in_model_order(mut expired: Vec<(u64, u64)>, due: usize) -> Vec<(u64, u64)> {
    let deadlines = expired[due..].iter().map(|(deadline, _)| deadline);
    assert!(deadlines.is_sorted(), "out of order: {expired:?}");
    expired[due..].sort_unstable();
    expired
}

pub fn check(wheel: &mut Wheel<u64>, model: &Model) {
    assert_eq!(wheel.now(), model.now);
    assert_eq!(wheel.len(), model.entries.len());
    assert_eq!(wheel.is_empty(), model.entries.is_empty());

    let next = wheel.next_deadline();
    let earliest = model.entries.iter().map(|entry| entry.deadline).min();
    assert_eq!(next, model.next_deadline());
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

pub fn apply(wheel: &mut Wheel<u64>, model: &mut Model, operation: Operation) {
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
            if let Some(index) = model.entry_index(index) {
                let entry = model.take(index);
                assert_eq!(wheel.remove(entry.key), Some(entry.value));
            }
        }
        Operation::Reset(index, when) => {
            if let Some(index) = model.entry_index(index) {
                let deadline = when.tick(model.now);
                let entry = model.entries.remove(index);
                model.place();
                assert!(wheel.reset(entry.key, deadline));
                model.add(entry.key, entry.value, deadline);
            }
        }
        Operation::Change(index) => {
            if let Some(index) = model.entry_index(index) {
                let entry = &mut model.entries[index];
                *wheel.get_mut(entry.key).expect("the entry is pending") += 1;
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
                let key = model.stale[usize::from(index) % model.stale.len()];
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
            model.place();
        }
        Operation::ShrinkToFit => wheel.shrink_to_fit(),
    }
}

pub fn advance(wheel: &mut Wheel<u64>, model: &mut Model, target: u64) {
    let due = model.entries.iter().filter(|entry| entry.position.is_none()).count();
    let mut expired = Vec::new();
    wheel.advance(target, |deadline, value| expired.push((deadline, value)));
    let due = due.min(expired.len());
    assert_eq!(in_model_order(expired, due), model.advance(target));
}

pub fn set_up(start: u64, geometry: Vec<usize>) -> (Wheel<u64>, Model) {
    let wheel = Wheel::with_levels(start, &geometry).expect("valid levels");
    let model =
        Model { geometry, now: start, entries: Vec::new(), least: BTreeMap::new(), stale: Vec::new(), values: 0 };
    (wheel, model)
}
