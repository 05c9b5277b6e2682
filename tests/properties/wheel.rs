//! The wheel, checked against its model.

mod wheel_model;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use corewheel::Wheel;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use wheel_model::{Operation, When, advance, apply, check, in_model_order, set_up};

/// Returns numbers of 0 to 64 bits, each length with the same probability.
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

/// Like [`when`], but rarely beyond all deadlines.
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
        10 => any::<u16>().prop_map(Operation::Remove),
        10 => (any::<u16>(), when()).prop_map(|(entry, when)| Operation::Reset(entry, when)),
        5 => any::<u16>().prop_map(Operation::Change),
        15 => jump().prop_map(Operation::Advance),
        15 => Just(Operation::AdvanceToNext),
        5 => any::<u16>().prop_map(Operation::UseStaleKey),
        1 => Just(Operation::Clear),
        3 => Just(Operation::ShrinkToFit),
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

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn the_wheel_matches_its_model(
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

    /// After a panic the remaining entries expire in order, whatever operations follow.
    #[test]
    fn a_panicking_callback_leaves_the_rest_in_place(
        start in start(),
        geometry in geometry(),
        deadlines in vec((0..3_u64, 0..50_u64), 2..40),
        changes in vec((any::<u16>(), when()), 0..10),
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
            apply(&mut wheel, &mut model, Operation::ShrinkToFit);
        }
        advance(&mut wheel, &mut model, target);
        advance(&mut wheel, &mut model, u64::MAX);
        check(&mut wheel, &model);
    }
}

#[test]
fn entries_inserted_as_due_expire_first_in_order() {
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

/// Other timing wheels lost the near timer at these ticks.
/// Promise: far future.
#[test]
fn a_far_and_a_near_timer_expire_at_the_edges_of_wide_counters() {
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
fn values_need_not_be_send_and_are_dropped_once() {
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
